// Makes the one member of docker-compose.yml a replica set, and Chronos's user. Repeatable.
const admin = db.getSiblingDB("admin");
admin.auth(process.env.MONGO_INITDB_ROOT_USERNAME, process.env.MONGO_INITDB_ROOT_PASSWORD);

try {
  rs.status();
} catch (error) {
  if (error.codeName !== "NotYetInitialized") throw error;
  // By the service's name: everybody else has to find it there.
  rs.initiate({ _id: "rs0", members: [{ _id: 0, host: "mongo:27017" }] });
}
for (let looks = 0; !db.hello().isWritablePrimary; looks++) {
  if (looks === 300) throw new Error("The member is no primary after 60 s.");
  sleep(200);
}

const database = db.getSiblingDB(process.env.MONGO_DB);
const rights = {
  pwd: process.env.MONGO_PASSWORD,
  roles: ["readWrite", "dbAdmin", { role: "clusterMonitor", db: "admin" }],
};
if (database.getUser("chronos")) {
  database.updateUser("chronos", rights);
} else {
  database.createUser({ user: "chronos", ...rights });
}
print("The replica set has a primary, and Chronos its user.");

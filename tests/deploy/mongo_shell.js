// What deploy/compose/initiate.js uses of mongosh, each method as the command that it sends:
// https://www.mongodb.com/docs/manual/reference/method/. The test at the other end of the pipe asks
// MongoDB. There is nothing else: a name that is wrong in the script fails.
const fs = require("node:fs");

function send(request) {
  fs.writeSync(1, JSON.stringify(request) + "\n");
  let line = "";
  const byte = Buffer.alloc(1);
  while (fs.readSync(0, byte, 0, 1) && byte[0] !== 10) line += byte.toString("latin1");
  const reply = JSON.parse(line);
  if (reply.failure) throw Object.assign(new Error(reply.failure.errmsg), reply.failure);
  return reply;
}

function database(name) {
  const run = (command) => send({ database: name, command });
  return {
    getSiblingDB: database,
    auth: (user, password) => send({ user, password }),
    hello: () => run({ hello: 1 }),
    getUser: (user) => run({ usersInfo: user }).users[0] ?? null,
    createUser: ({ user, ...rights }) => run({ createUser: user, ...rights }),
    updateUser: (user, rights) => run({ updateUser: user, ...rights }),
  };
}

globalThis.db = database("test");
globalThis.rs = {
  status: () => send({ database: "admin", command: { replSetGetStatus: 1 } }),
  initiate: (config) => send({ database: "admin", command: { replSetInitiate: config } }),
};
globalThis.print = (text) => process.stderr.write(text + "\n");
globalThis.quit = (status) => process.exit(status);
globalThis.sleep = (milliseconds) =>
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);

// A region that refreshes itself (hx-trigger="every …s") must not do so under somebody's hands,
// and must say when what it shows is old. Every page works without this file.
"use strict";

const isBusy = (region) => {
  const active = document.activeElement;
  if (active && active !== document.body && region.contains(active)) return true;
  const selection = window.getSelection();
  if (selection && !selection.isCollapsed && region.contains(selection.anchorNode)) return true;
  return region.querySelector("details[open]") !== null;
};

const isRefresh = (event) =>
  event.target.matches("[data-refreshes]") && event.detail.requestConfig.verb === "get";

document.addEventListener("htmx:beforeRequest", (event) => {
  if (!isRefresh(event)) return;
  const region = event.target;
  region.classList.toggle("is-paused", isBusy(region));
  if (document.hidden || isBusy(region)) {
    event.preventDefault();
    return;
  }
  const timer = setTimeout(() => region.classList.add("is-waiting"), 1000);
  event.detail.xhr.addEventListener("loadend", () => {
    clearTimeout(timer);
    region.classList.remove("is-waiting");
  });
});

// Somebody may have begun while the answer was on its way.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (isRefresh(event) && isBusy(event.target)) event.detail.shouldSwap = false;
});

const markStale = (event) => {
  if (event.target.matches("[data-refreshes]")) event.target.classList.add("is-stale");
};
document.addEventListener("htmx:sendError", markStale);
document.addEventListener("htmx:timeout", markStale);
document.addEventListener("htmx:responseError", markStale);

// A session that has ended answers with the login page: go there instead of showing it in a region.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (new URL(event.detail.xhr.responseURL).pathname.startsWith("/admin/login/")) {
    event.detail.shouldSwap = false;
    window.location.reload();
  }
});

// Lets times tick between two looks at the server, by the server's clock.
// The words are those of bits.rs.

let skew = 0;

/** Sets the clock by a part that the server has just made. */
export function setClock(main) {
  const now = Number(main.dataset.now);
  if (now) skew = now - Date.now();
}

export function start() {
  setClock(document.getElementById("main"));
  setInterval(tick, 1000);
}

function tick() {
  if (document.hidden) return;
  const now = Date.now() + skew;
  for (const time of document.querySelectorAll("time[data-at]")) write(time, relative(Number(time.dataset.at), now));
  for (const time of document.querySelectorAll("time[data-since]")) {
    write(time, length(Math.max(0, now - Number(time.dataset.since))));
  }
}

function write(time, text) {
  if (time.textContent !== text) time.textContent = text;
}

function relative(at, now) {
  const ms = Math.abs(at - now);
  if (ms < 1000) return "now";
  return at > now ? `in ${coarse(ms)}` : `${coarse(ms)} ago`;
}

function coarse(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

function length(ms) {
  const whole = (unit) => Math.floor(ms / unit);
  if (ms < 1000) return `${whole(1)} ms`;
  if (ms < 60_000) return `${whole(1000)}.${Math.floor((ms % 1000) / 100)} s`;
  if (ms < 3_600_000) return `${whole(60_000)} m ${whole(1000) % 60} s`;
  if (ms < 86_400_000) return `${whole(3_600_000)} h ${whole(60_000) % 60} m`;
  return `${whole(86_400_000)} d ${whole(3_600_000) % 24} h`;
}

// How long ago things were stays true while a page is open.
function ago(milliseconds) {
  const s = Math.abs(Math.trunc(milliseconds / 1000));
  const text = s < 120 ? `${s}s` : s < 7200 ? `${Math.trunc(s / 60)}m` : s < 172800 ? `${Math.trunc(s / 3600)}h` : `${Math.trunc(s / 86400)}d`;
  return milliseconds < 0 ? `in ${text}` : `${text} ago`;
}
setInterval(() => {
  for (const time of document.querySelectorAll("time")) time.textContent = ago(Date.now() - Date.parse(time.dateTime));
}, 5000);

// The live inbox. The page works without it: what is shown then is as of when it was loaded.
const body = document.querySelector("tbody[data-live]");
if (body) {
  const button = document.querySelector("#live");
  const status = document.querySelector("#live-status");
  const login = document.querySelector("#live-login");
  const turn = document.querySelector("#turn"); // the link to the next page
  const unread = "Not all is live: this page cannot be read again";
  const nothing = document.querySelector("#nothing");
  const most = 700; // rows that are kept: more than a page has when it is loaded
  let after = body.dataset.after;
  let live = "Live"; // what is said while the stream is open: what is wrong, as the server has told it
  let paused = false;
  let source = null;
  let late = null; // changes that have come while the page is read again; null: it is not
  let timer = setTimeout(again, 30_000);

  function open() {
    if (paused || source || document.hidden) return;
    const url = new URL(body.dataset.live, location.href);
    url.searchParams.set("after", after);
    source = new EventSource(url);
    source.onopen = () => { status.textContent = live = "Live"; };
    source.onerror = () => { // a browser connects again by itself, unless it was refused
      const refused = source && source.readyState === EventSource.CLOSED;
      status.textContent = "Not live: connecting again";
      if (refused) { close(); ask(url); }
    };
    source.addEventListener("trouble", (e) => { status.textContent = live = e.data ? "Not all is shown: " + e.data : "Live"; });
    source.addEventListener("ended", (e) => { close(); end(e.data); });
    source.addEventListener("gap", (e) => add(() => body.prepend(gap(e.data))));
    source.addEventListener("row", (e) => { after = e.lastEventId || after; add(() => show(e.data)); });
  }

  function add(change) {
    late?.push(change);
    change();
    nothing.hidden = body.rows.length > 0;
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  // ask asks why a view was refused, which a browser does not say, and tries again later unless the session has ended.
  async function ask(url) {
    let why = "this process does not answer";
    try {
      const answer = await fetch(url, { headers: { Accept: "text/event-stream" } });
      if (answer.headers.get("Content-Type")?.startsWith("text/plain")) why = (await answer.text()).trim();
      else answer.body.cancel();
      if (answer.status === 401) { end(why); return; }
    } catch { /* nobody is there */ }
    status.textContent = "Not live: " + why;
    setTimeout(open, 10_000);
  }

  // end says that the session has ended, and leads to a login that comes back here.
  function end(why) {
    paused = true;
    button.hidden = true;
    login.hidden = false;
    login.href = "/console/login?next=" + encodeURIComponent(location.pathname + location.search);
    status.textContent = "Not live: " + why;
  }

  // show puts a row on top, or in the place of what was shown of it before.
  function show(html) { // of this process, in which all that a sender wrote is escaped
    const holder = document.createElement("template");
    holder.innerHTML = html;
    const row = holder.content.querySelector("tr");
    const old = [...body.rows].find((r) => r.dataset.key === row.dataset.key);
    if (old) {
      if (!body.rows[0].dataset.key) body.rows[0].remove(); // a gap, and what follows it is here: nothing is missing
      old.replaceWith(row);
    } else body.prepend(row);
    if (body.rows.length > most) { // the next page begins behind what is removed
      while (body.rows.length >= most) body.lastElementChild.remove();
      body.append(gap("the oldest were removed"));
      turn.replaceChildren();
    }
  }

  // gap makes a row that stands where rows are missing.
  function gap(why) {
    const row = document.createElement("tr");
    const cell = row.insertCell();
    const link = document.createElement("a");
    cell.colSpan = 10;
    link.href = location.pathname + location.search;
    link.textContent = "load the page again";
    cell.append(`Not all is shown here: ${why}; `, link);
    return row;
  }

  // again reads the page again, now and then: the stream has what was decided in the last half minute, and neither what changes later nor what
  // fits the filters no more. A page that takes long is read the less often, as the server looks. Who comes back gets the page first, and then
  // the stream from there on.
  async function again() {
    if (late) return;
    clearTimeout(timer);
    const began = performance.now();
    if (!paused && !document.hidden) {
      late = [];
      const page = await fetch(location.href, { signal: AbortSignal.timeout(30_000) }).then((answer) => answer.text()).then((text) => new DOMParser().parseFromString(text, "text/html")).catch(() => null);
      const read = page?.querySelector("tbody[data-live]");
      const rows = read?.rows;
      if (rows && !paused && !document.hidden) {
        if (!source) after = read.dataset.after;
        const focused = body.contains(document.activeElement) && document.activeElement.href;
        body.replaceChildren(...rows);
        for (const change of late) change();
        nothing.hidden = body.rows.length > 0;
        turn.replaceChildren(...page.querySelector("#turn").children);
        if (focused) [...body.querySelectorAll("a")].find((a) => a.href === focused)?.focus({ preventScroll: true });
      }
      if (source?.readyState === EventSource.OPEN && !rows) status.textContent = unread;
      else if (status.textContent === unread) status.textContent = live;
      late = null;
      open();
    }
    timer = setTimeout(again, Math.max(30_000, 20 * (performance.now() - began)));
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    if (paused) { close(); status.textContent = "Paused"; } else again();
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else again(); });
  open();
}

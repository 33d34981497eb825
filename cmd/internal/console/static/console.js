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
  const most = 700; // rows that are kept: more than a page has when it is loaded
  let after = body.dataset.after;
  let paused = false;
  let source = null;

  function open() {
    if (paused || source || document.hidden) return;
    const url = new URL(body.dataset.live, location.href);
    url.searchParams.set("after", after);
    source = new EventSource(url);
    source.onopen = () => { status.textContent = "Live"; };
    source.onerror = () => { // a browser connects again by itself, unless it was refused
      const refused = source && source.readyState === EventSource.CLOSED;
      status.textContent = "Not live: connecting again";
      if (refused) { close(); ask(url); }
    };
    source.addEventListener("trouble", (e) => { status.textContent = e.data ? "Not all is shown: " + e.data : "Live"; });
    source.addEventListener("ended", (e) => { close(); end(e.data); });
    source.addEventListener("gap", (e) => body.prepend(gap(e.data)));
    source.addEventListener("row", (e) => { after = e.lastEventId || after; show(e.data); });
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
    if (old) old.replaceWith(row);
    else body.prepend(row);
    if (body.rows.length > most) { // the next page begins behind what is removed
      while (body.rows.length >= most) body.lastElementChild.remove();
      body.append(gap("the oldest were removed"));
      document.querySelector("nav.turn")?.remove();
    }
    document.querySelector("#nothing")?.remove();
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

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    if (paused) { close(); status.textContent = "Paused"; } else open();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  open();
}

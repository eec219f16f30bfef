// The page asks the node for its picture of the network every two seconds. Everything that is shown comes from
// strangers: it is set as text, never as markup.

const REFRESH = 2000;
const MOST_EVENTS = 200;
const MOST_DRAWN = 40;
const $ = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token");
const withToken = (path) => (token ? `${path}${path.includes("?") ? "&" : "?"}token=${encodeURIComponent(token)}` : path);
const rate = (value) => value.toFixed(1);
const shortName = (node) => node.slice(0, 8);
const count = (number, one, many) => `${number} ${number === 1 ? one : many}`;

let network = null;
let chosen = null;
let focused = null;
let source = null;

function make(kind, text, ...classes) {
  const element = document.createElement(kind);
  if (text !== undefined) element.textContent = text;
  element.classList.add(...classes);
  return element;
}

function draw(kind, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function refill(element, children) {
  element.replaceChildren(...children);
}

// -- the tree of communities --

const archived = () => network.nodes.flatMap((node) => Object.keys(node.archive));

function hierarchy() {
  const names = new Set();
  for (const name of [...Object.keys(network.communities), ...archived()]) {
    const levels = name === "/" ? [] : name.slice(1).split("/");
    for (let depth = 1; depth <= levels.length; depth++) names.add("/" + levels.slice(0, depth).join("/"));
    if (!levels.length) names.add("/");
  }
  const wanted = $("filter").value.trim().toLowerCase();
  return [...names].sort().filter((name) => !wanted || name.toLowerCase().includes(wanted));
}

function showTree() {
  const had = document.activeElement?.getAttribute("role") === "treeitem";
  const names = hierarchy();
  if (!names.includes(focused)) focused = names.includes(chosen) ? chosen : names[0];
  refill($("tree"), names.map((name) => {
    const community = network.communities[name];
    const depth = name === "/" ? 0 : name.split("/").length - 2;
    const item = make("li", undefined, `depth-${Math.min(depth, 4)}`);
    item.setAttribute("role", "treeitem");
    item.setAttribute("aria-level", depth + 1);
    item.setAttribute("aria-selected", name === chosen);
    item.tabIndex = name === focused ? 0 : -1;
    item.dataset.topic = name;
    const label = depth && names.includes(name.slice(0, name.lastIndexOf("/"))) ? name.slice(name.lastIndexOf("/")) : name;
    item.append(make("span", label), make("span", community ? community.members.length : ""), make("span", community ? rate(community.rate) : ""));
    item.title = name;
    return item;
  }));
  if (had) $("tree").querySelector('[tabindex="0"]')?.focus();
}

function choose(name) {
  if (name !== chosen) stopFollowing();
  chosen = focused = name;
  $("publish-topic").value = name;
  $("follow").disabled = false;
  show();
}

$("tree").addEventListener("click", (event) => {
  const item = event.target.closest('[role="treeitem"]');
  if (item) choose(item.dataset.topic);
});

$("tree").addEventListener("keydown", (event) => {
  const items = [...$("tree").children];
  const at = items.findIndex((item) => item.dataset.topic === focused);
  const goes = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 };
  if (event.key in goes) {
    const next = items[Math.max(0, Math.min(items.length - 1, goes[event.key]))];
    items[at]?.setAttribute("tabindex", -1);
    focused = next.dataset.topic;
    next.tabIndex = 0;
    next.focus();
  } else if (event.key === "Enter" || event.key === " ") {
    choose(focused);
  } else {
    return;
  }
  event.preventDefault();
});

// -- one topic --

function showTopic() {
  const community = chosen && network.communities[chosen];
  $("topic-title").textContent = chosen ?? "Choose a community";
  if (!community) {
    const kept = archived().includes(chosen) ? "An archive keeps this topic. " : "";
    $("facts").textContent = chosen ? `${kept}No node that answers is in this community.` : "";
    $("route").textContent = "";
    refill($("graph"), []);
    return;
  }
  const publishers = community.members.filter((member) => member.publishing).length;
  const subscribers = community.members.filter((member) => member.subscriptions).length;
  $("facts").textContent = `${count(community.members.length, "member answers", "members answer")}, about ${Math.round(community.size)} estimated; ` +
    `${count(publishers, "publishes", "publish")}, ${count(subscribers, "subscribes", "subscribe")}; ${rate(community.rate)} events/s`;
  $("route").textContent = routeInWords(community.route);
  showGraph(community);
}

// How one event, which nodes have sampled, came from member to member.
function routeInWords(route) {
  if (!route) return "";
  const sent = new Map();
  for (const { from, to, hops } of route.hops) {
    const how = from ? `hop ${hops}: ${shortName(from)} →` : hops ? `hop ${hops}: by another community →` : "from";
    sent.set(how, [...(sent.get(how) ?? []), shortName(to)]);
  }
  const words = [...sent].map(([how, names]) => `${how} ${names.slice(0, 8).join(", ")}${names.length > 8 ? ` and ${names.length - 8} more` : ""}`);
  return `Event ${parseInt(route.event.slice(-16), 16)}, ${Math.round(route.seconds)} s ago: ${words.join("; ")}`;
}

function showGraph(community) {
  const members = community.members.slice(0, MOST_DRAWN);
  const places = new Map();
  members.forEach((member, index) => {
    const angle = (2 * Math.PI * index) / members.length - Math.PI / 2;
    places.set(member.node, { x: 300 + (members.length > 1 ? 210 : 0) * Math.cos(angle), y: 170 + (members.length > 1 ? 95 : 0) * Math.sin(angle), member });
  });
  const above = [...new Set(Object.values(community.above).flatMap((tables) => Object.values(tables).flat()))].filter((node) => !places.has(node)).slice(0, 12);
  above.forEach((node, index) => places.set(node, { x: (600 * (index + 1)) / (above.length + 1), y: 18, above: true }));
  const shapes = [];
  const link = (from, to, kind) => {
    const a = places.get(from);
    const b = places.get(to);
    if (a && b) shapes.push(draw("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: kind }));
  };
  for (const [node, table] of Object.entries(community.tables)) table.forEach((other) => link(node, other, ""));
  for (const [node, tables] of Object.entries(community.above)) Object.values(tables).flat().forEach((other) => link(node, other, "above"));
  for (const { from, to } of community.route?.hops ?? []) link(from, to, "route");
  for (const [node, { x, y, above: isAbove, member }] of places) {
    const kind = isAbove ? "above" : member.publishing ? "publisher" : "";
    const circle = draw("circle", { cx: x, cy: y, r: 7, class: kind });
    const title = draw("title", {});
    title.textContent = isAbove ? `${node}, in a super-community` : `${node}${member.publishing ? ", publishes" : ""}`;
    circle.append(title);
    const label = draw("text", { x, y: !isAbove && y < 160 ? y - 12 : y + 19 });  // beside the lines
    label.textContent = shortName(node);
    shapes.push(circle, label);
  }
  refill($("graph"), shapes);
}

// -- live events, publishing --

function stopFollowing() {
  source?.close();
  source = null;
  $("follow").setAttribute("aria-pressed", "false");
  $("follow").textContent = "follow";
}

function follow() {
  if (!chosen) return;
  if (source) return stopFollowing();
  refill($("events"), []);
  $("follow").setAttribute("aria-pressed", "true");
  $("follow").textContent = "stop";
  source = new EventSource(withToken(`/topics${chosen === "/" ? "" : chosen.split("/").map(encodeURIComponent).join("/")}`));
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    const row = make("li");
    row.append(make("span", event.topic, "topic-name"), make("span", JSON.stringify(event.data)), make("span", count(event.hops, "hop", "hops"), "hops"));
    row.title = `from ${event.publisher}`;
    $("events").prepend(row);
    while ($("events").children.length > MOST_EVENTS) $("events").lastChild.remove();
  };
}

$("follow").addEventListener("click", follow);

$("publish").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = $("publish-data").value;
  let type = "application/json";
  try { JSON.parse(text); } catch { type = "text/plain"; }
  const topic = $("publish-topic").value.trim();
  const path = `/topics${topic.split("/").map(encodeURIComponent).join("/")}`;
  try {
    const answer = await fetch(withToken(path), { method: "POST", headers: { "Content-Type": type }, body: text });
    const body = await answer.json();
    $("published").textContent = answer.ok ? `published to ${topic}` : body.error;
  } catch (error) {
    $("published").textContent = `not published: ${error.message}`;
  }
});

// -- everything else --

function serves(node) {
  const parts = Object.entries(node.archive).map(([topic, kept]) =>
    kept.failure ? `archive of ${topic}: failed` : `archive of ${topic}: ${count(kept.events, "event", "events")}, ${kept.behind} behind`);
  for (const [name, service] of Object.entries(node.services)) {
    const clients = Object.values(service.subscribers ?? {}).reduce((sum, one) => sum + one, 0);
    parts.push(`${name}: ${count(clients, "client", "clients")}`);
  }
  if (node.mqtt_clients) parts.push(`MQTT: ${count(node.mqtt_clients, "client", "clients")}`);
  return parts.join("; ");
}

function showNodes() {
  refill($("nodes"), network.nodes.map((node) => {
    const row = make("tr");
    const name = make("td", node.node);
    const about = [node.me ? "serves this page" : "", serves(node)].filter(Boolean).join("; ");
    if (about) name.append(make("small", about));
    row.append(name, make("td", node.communities), make("td", rate(node.delivered)), make("td", rate(node.sent)), make("td", node.dropped));
    return row;
  }));
  const losses = Object.entries(network.dropped).filter(([, count]) => count).sort((a, b) => b[1] - a[1]);
  refill($("losses"), losses.length ? losses.map(([reason, count]) => {
    const row = make("li");
    row.append(make("span", reason.replaceAll("_", " ")), make("span", count));
    return row;
  }) : [make("li", "none")]);
  refill($("alerts"), network.alerts.slice(0, 5).map((alert) => make("li", alert)));
}

function show() {
  if (!network) return;
  const names = Object.keys(network.communities);
  if (chosen === null && names.length) return choose(names.sort()[0]);
  $("summary").textContent = `${count(network.nodes.length, "node", "nodes")}, ${count(names.length, "community", "communities")}`;
  showTree();
  showTopic();
  showNodes();
}

async function refresh() {
  try {
    const answer = await fetch(withToken("/network.json"));
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.error);
    network = body;
    show();
  } catch (error) {
    $("summary").textContent = `the node does not answer: ${error.message}`;
  }
  setTimeout(refresh, REFRESH);
}

function turn() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
}

$("theme").addEventListener("click", turn);
$("filter").addEventListener("input", show);
$("filter").addEventListener("keydown", (event) => {
  if (event.key === "Escape") $("filter").blur();
  if (event.key !== "Enter" && event.key !== "ArrowDown") return;
  event.preventDefault();
  $("tree").querySelector('[tabindex="0"]')?.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
  const does = { "/": () => $("filter").focus(), p: () => $("publish-topic").focus(), f: follow, t: turn };
  if (event.key in does) {
    event.preventDefault();
    does[event.key]();
  }
});
const saved = localStorage.getItem("theme");
if (saved) document.documentElement.dataset.theme = saved;
refresh();

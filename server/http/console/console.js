// The console page. It asks the server for /info.json once a second while the page is visible, and for
// /segments.json every other time. The server keeps no samples: all series are this page's.
'use strict';

const PERIOD_MS = 1000;
const PATIENCE_MS = 3000;
const KEPT_SECONDS = 300;
const PERCENTILE_SECONDS = 60;
const GAP_SECONDS = 5;  // a longer time between two answers is a gap in the chart
const MOST_EVENTS = 50;
const MOST_CELLS = 16384;
const MOST_CLIENTS = 10;  // in the table of those that ask most
const MAP_HEIGHT = 180;  // at most

// `of`: the operations among two answers' metrics.
const OPERATIONS = [
  {name: 'puts', style: 'series_1', of: ['puts']},
  {name: 'deletes and touches', style: 'series_2', of: ['deletes', 'touches']},
  {name: 'reads reported', style: 'series_3', of: ['reads_reported']},
  {name: 'reads located', style: 'series_4', of: ['locates']},
  {name: 'scan pages', style: 'series_5', of: ['scan_pages']},
];
const TIMES = [
  ['commit_time', 'Commit'],
  ['sync_time', 'Sync (fsync)'],
  ['rocksdb_write_time', 'RocksDB write'],
  ['scan_page_time', 'Scan page'],
  ['cold_read_time', 'Cold read'],
];
const USES = [
  ['log', 'records, alive', 'log'], ['log_empty', 'records, dead', 'log_empty'],
  ['log_head', 'being written', 'log_head'], ['large', 'large values', 'large'],
  ['index', 'index', 'index'], ['retired', 'retired', 'retired'],
  ['claimed', 'kept for a large value', 'claimed'], ['free', 'free', 'free'],
  ['superblock', 'superblock', 'superblock'],
];
const USE_OF_LETTER = {s: 'superblock', f: 'free', i: 'index', h: 'log_head', r: 'retired', l: 'large',
                       c: 'claimed'};

const at = (id) => document.getElementById(id);

// --- Text

const whole = (value) => Math.round(value).toLocaleString('en-US');

function rateText(value) {
  return value > 0 && value < 10 ? value.toFixed(1) : whole(value);
}

function bytesText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) {
    bytes /= 1024;
    ++unit;
  }
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : +bytes.toFixed(1)} ${units[unit]}`;
}

function timeText(ns) {
  for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]]) {
    if (ns >= size) return `${+(ns / size).toPrecision(3)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

function durationText(seconds) {
  const days = Math.floor(seconds / 86400);
  const hours = Math.floor(seconds / 3600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${Math.floor(seconds) % 60} s` : `${Math.floor(seconds)} s`;
}

// --- Elements

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Sets the cells of a table's body, and keeps its rows. A row: {cells, alarm, swatch}, the latter two optional.
function setRows(table, rows) {
  const body = table.tBodies[0];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach(({cells, alarm, swatch}, index) => {
    let row = body.rows[index];
    if (row === undefined) {
      row = body.insertRow();
      const head = document.createElement('th');
      head.scope = 'row';
      if (swatch !== undefined) head.append(swatch, document.createElement('span'));
      row.append(head);
      for (let i = 1; i < cells.length; ++i) row.insertCell();
    }
    row.classList.toggle('alarm', alarm === true);
    cells.forEach((text, i) => setText(i > 0 ? row.cells[i] : row.cells[0].lastElementChild ?? row.cells[0], text));
  });
}

function swatchOf(style) {
  const svg = LineChart.element('svg', {viewBox: '0 0 12 12', 'aria-hidden': 'true'});
  svg.append(LineChart.element('rect', {width: 12, height: 12, rx: 2, class: style}));
  return svg;
}

// --- Samples

// A sample: {time, info, values}, `time` being the server's uptime. Of those with a gap before, values is null.
let samples = [];
let started = null;  // of the server, by its clock
let lost = null;     // when the connection was lost, by performance.now()

const last = (list) => list[list.length - 1];

function addSample(info) {
  if (started !== null && started !== info.started_unix_ms) {
    samples = [];
    addEvent('bad', 'the server was started anew');
  }
  started = info.started_unix_ms;
  const sample = {time: info.uptime_seconds, info, values: null};
  const before = last(samples);
  if (before !== undefined && sample.time <= before.time) return;
  if (before !== undefined && sample.time - before.time <= GAP_SECONDS) {
    sample.values = OPERATIONS.map(({of}) => perSecond(before, sample, of));
  }
  if (before !== undefined) addEvents(before.info, info);
  samples.push(sample);
  while (samples[0].time < sample.time - KEPT_SECONDS) samples.shift();
}

function perSecond(before, after, names) {
  const sum = ({info}) => names.reduce((total, name) => total + (info.metrics[name] ?? 0), 0);
  return Math.max(0, sum(after) - sum(before)) / (after.time - before.time);
}

// The latest sample that is at least so many seconds old, or else the first one.
function sampleBefore(seconds) {
  const wanted = last(samples).time - seconds;
  return samples.findLast(({time}) => time <= wanted) ?? samples[0];
}

// --- Events: what the answers say, in words without names

const EVENTS = [
  ['connections_refused', 'bad', (n) => `${n} connections rejected`],
  ['connections_broken', 'bad', (n) => `${n} clients broke the protocol`],
  ['handshakes_dropped', 'bad', (n) => `${n} handshakes dropped`],
  ['disk_failures', 'bad', (n) => `${n} writes or syncs failed`],
  ['writes_put_off', 'bad', (n) => `writes waited for memory (${n} times)`],
  ['commit_log_slowed', 'bad', (n) => `writers were slowed, as the commit log fills (${n} times)`],
  ['evictions', '', (n) => `${n} values left memory`],
  ['connections_accepted', '', (n) => `${n} clients connected`],
];

function addEvents(before, after) {
  if (before.ready !== after.ready) {
    addEvent(after.ready ? '' : 'bad', after.ready ? 'ready' : `not ready: ${after.reason}`);
  }
  for (const [name, kind, text] of EVENTS) {
    const more = (after.metrics[name] ?? 0) - (before.metrics[name] ?? 0);
    if (more > 0) addCounted(name, kind, more, text);
  }
}

// Of one name there is one event for a minute, which counts on: so no name fills the list.
const counted = {};
function addCounted(name, kind, more, text) {
  const now = performance.now();
  const known = counted[name];
  const goes_on = known !== undefined && now < known.until;
  if (goes_on) known.item.remove();
  const count = more + (goes_on ? known.count : 0);
  const until = goes_on ? known.until : now + 60000;
  counted[name] = {count, until, item: addEvent(kind, text(whole(count)))};
}

function addEvent(kind, text) {
  const list = at('events');
  const item = document.createElement('li');
  if (kind !== '') item.className = kind;
  const time = document.createElement('time');
  time.textContent = new Date().toLocaleTimeString('en-GB');
  const words = document.createElement('span');
  words.textContent = text;
  item.append(time, words);
  list.prepend(item);
  at('events_empty').hidden = true;
  while (list.children.length > MOST_EVENTS) list.lastElementChild.remove();
  return item;
}

// --- Histograms (store/format/memory/histogram.h)

function percentile(buckets, bounds, max, percent) {
  const count = buckets.reduce((sum, one) => sum + one, 0);
  if (count === 0) return null;
  let before = 0;
  for (let i = 0; i < buckets.length; ++i) {
    const lower = i > 0 ? bounds[i - 1] : 0;
    const upper = i < bounds.length ? bounds[i] : Math.max(lower, max);
    if (buckets[i] > 0 && before + buckets[i] >= count * percent / 100) {
      const share = (count * percent / 100 - before) / buckets[i];
      return Math.min(lower + (upper - lower) * share, max);
    }
    before += buckets[i];
  }
  return null;
}

function showTimes() {
  const now = last(samples);
  const then = sampleBefore(PERCENTILE_SECONDS);
  const rows = TIMES.map(([name, text]) => {
    const all = now.info.histograms[name];
    if (all === undefined) return {cells: [text, '–', '–', '–', '–', '–']};
    const earlier = then.info.histograms[name]?.buckets;
    const recent = all.buckets.map((count, i) => count - (then === now ? 0 : earlier?.[i] ?? 0));
    const percentiles = [50, 90, 99].map((percent) => {
      const found = percentile(recent, now.info.histogram_bounds_ns, all.max_ns, percent);
      return found === null ? '–' : timeText(found);
    });
    const count = recent.reduce((sum, one) => sum + one, 0);
    const rate = then === now ? '–' : rateText(count / (now.time - then.time));
    return {cells: [text, rate, ...percentiles, all.max_ns > 0 ? timeText(all.max_ns) : '–']};
  });
  setRows(at('latency_table'), rows);
}

// --- The chart

let chart = null;

function makeChart() {
  const legend = OPERATIONS.map(({name, style}) => {
    const item = document.createElement('span');
    const line = LineChart.element('svg', {viewBox: '0 0 24 8', 'aria-hidden': 'true'});
    line.append(LineChart.element('line', {x1: 0, x2: 24, y1: 4, y2: 4, class: style}));
    const value = document.createElement('b');
    item.append(line, name, value);
    return {item, value};
  });
  const time = document.createElement('span');
  time.id = 'legend_time';
  at('chart_legend').append(...legend.map(({item}) => item), time);
  chart = new LineChart(at('chart'), OPERATIONS, KEPT_SECONDS, (pointed) => {
    const shown = pointed ?? last(samples);
    legend.forEach(({value}, i) => setText(value, shown?.values ? rateText(shown.values[i]) : '–'));
    const ago = pointed === null || pointed === last(samples) ? 0 : last(samples).time - pointed.time;
    setText(time, ago >= 0.5 ? `${Math.round(ago)} s ago` : 'now');
  });
}

function showOperations() {
  const age = last(samples).time - samples[0].time;
  chart.seconds = Math.min(KEPT_SECONDS, 60 * Math.max(1, Math.ceil(age / 60)));
  chart.show(samples);
  const known = samples.filter(({values}) => values !== null);
  const rows = OPERATIONS.map(({name}, i) => {
    const rates = known.map(({values}) => values[i]);
    if (rates.length === 0) return {cells: [name, '–', '–', '–']};
    const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
    return {cells: [name, ...[last(rates), mean, Math.max(...rates)].map(rateText)]};
  });
  setRows(at('chart_table'), rows);
  const any = known.some(({values}) => values.some((rate) => rate > 0));
  at('chart_empty').hidden = any;
  setText(at('chart_empty'), known.length === 0 ? 'no data yet' : 'no operations since this page was opened');
  at('chart').setAttribute('aria-label', known.length === 0
    ? 'Operations per second. No data yet.'
    : `Operations per second over the last minutes. Now: ${rows.map(({cells}) => `${cells[0]} ${cells[1]}`).join(', ')}.`);
}

// --- The memory

let segments = null;

function colourOf(style, letter) {
  if (letter in USE_OF_LETTER) return style.getPropertyValue(`--${USE_OF_LETTER[letter]}`);
  const alive = (Number(letter) + 1) / 10;
  return `color-mix(in srgb, ${style.getPropertyValue('--log_full')} ${alive * 100}%, ` +
    `${style.getPropertyValue('--log_empty')})`;
}

function drawMap() {
  const canvas = at('map');
  if (segments === null || segments.count === 0 || canvas.clientWidth === 0) return;
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const {map} = segments;
  const perCell = Math.ceil(map.length / Math.min(MOST_CELLS, width * MAP_HEIGHT / 9));
  const cells = Math.ceil(map.length / perCell);
  const rowsOf = (size) => Math.ceil(cells / Math.floor(width / size));
  let size = 18;
  while (size > 2 && rowsOf(size) * size > MAP_HEIGHT) --size;
  const columns = Math.floor(width / size);
  const height = rowsOf(size) * size;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const drawing = canvas.getContext('2d');
  drawing.scale(scale, scale);
  const gap = size > 4 ? 1 : 0;
  const style = getComputedStyle(document.documentElement);
  const colours = {};
  for (let i = 0; i < cells; ++i) {
    const letter = map[i * perCell];
    drawing.fillStyle = colours[letter] ??= colourOf(style, letter);
    drawing.fillRect(i % columns * size, Math.floor(i / columns) * size, size - gap, size - gap);
  }
  setText(at('map_note'), perCell === 1
    ? 'Each cell is a segment of 1 MiB, in the order of the memory; the fuller its colour, the more of it is alive.'
    : `Each cell stands for the first of ${perCell} segments of 1 MiB, in the order of the memory.`);
}

function showSegments() {
  const {counts, segment_bytes: bytes, map, count} = segments;
  let dead = 0;  // of the log, in segments
  for (const letter of map) if (letter >= '0' && letter <= '9') dead += (9 - Number(letter)) / 10;
  const sizes = {...counts, log: (counts.log ?? 0) - dead, log_empty: dead};
  const rows = USES.map(([name, text, style]) => {
    const of = sizes[name] ?? 0;
    return {cells: [text, bytesText(of * bytes)], swatch: swatchOf(style)};
  });
  setRows(at('map_table'), rows);
  setText(at('map_size'), count > 0 ? `${bytesText(count * bytes)}, ${whole(count)} segments` : '');
  at('map').setAttribute('aria-label', count > 0
    ? `Map of the memory, ${whole(count)} segments: ${rows.map(({cells}) => cells.join(' ')).join(', ')}.`
    : 'Map of the memory. No data yet.');
  drawMap();
}

// --- The tables

function showClients({metrics, max_clients: most}) {
  const row = (text, value, alarm) => ({cells: [text, value], alarm});
  const rejected = metrics.connections_refused ?? 0;
  setRows(at('clients_table'), [
    row('connected', `${whole(metrics.connections ?? 0)} of ${whole(most)}`, metrics.connections >= most),
    row('local', whole(metrics.connections_local ?? 0)),
    row('TCP', whole(metrics.connections_tcp ?? 0)),
    row('TLS', whole(metrics.connections_tls ?? 0)),
    row('RDMA', whole(metrics.connections_verbs ?? 0)),
    row('accepted since the start', whole(metrics.connections_accepted ?? 0)),
    row('rejected since the start', whole(rejected)),
    row('scans and watches open', whole(metrics.scan_cursors ?? 0)),
    ...(metrics.watches_overtaken > 0 ? [row('watches that fell behind', whole(metrics.watches_overtaken))] : []),
    row('wake-ups per s', rateOf('wakeups')),
    ...(metrics.tcp_reads > 0 ? [row('reads over TCP per s', rateOf('tcp_reads'))] : []),
  ]);
}

// The answer of /clients.json before the last one.
let clientsBefore = null;

function showBusiest(answer) {
  const before = new Map((clientsBefore?.clients ?? []).map((client) => [client.number, client]));
  const seconds = (answer.now_unix_ms - (clientsBefore?.now_unix_ms ?? answer.now_unix_ms)) / 1000;
  clientsBefore = answer;
  const rate = (client, name) =>
    before.has(client.number) && seconds > 0 ? (client[name] - before.get(client.number)[name]) / seconds : null;
  const busiest = answer.clients.map((client) => ({client, requests: rate(client, 'requests')}))
    .sort((a, b) => (b.requests ?? -1) - (a.requests ?? -1) || a.client.number - b.client.number)
    .slice(0, MOST_CLIENTS);
  setRows(at('busiest_table'), busiest.map(({client, requests}) => ({cells: [
    `#${client.number}`, client.transport, durationText((answer.now_unix_ms - client.since_unix_ms) / 1000),
    requests === null ? '–' : rateText(requests),
    requests === null ? '–' : bytesText(rate(client, 'bytes'))]})));
}

function rateOf(name) {
  const before = samples[samples.length - 2];
  return before === undefined ? '–' : rateText(perSecond(before, last(samples), [name]));
}

function showDurability({metrics, durability}) {
  const row = (text, value, alarm) => ({cells: [text, value], alarm});
  if (durability === 'memory') {
    setRows(at('durability_table'), [row('level', 'memory: nothing is on disk')]);
    return;
  }
  const rejects = (metrics.disk_refuses ?? 0) > 0;
  const slowed = metrics.commit_log_slowed ?? 0;
  setRows(at('durability_table'), [
    row('level', durability),
    row('disk', rejects ? 'takes no writes' : 'takes writes', rejects),
    row('writes that wait for the disk', whole(metrics.writes_unsynced ?? 0)),
    row('syncs per s', rateOf('syncs')),
    row('commit log not in RocksDB', bytesText(metrics.commit_log_unapplied_bytes ?? 0)),
    row('the oldest of it', timeText(metrics.commit_log_lag_ns ?? 0)),
    row('commit log not in tables', bytesText(metrics.commit_log_unpersisted_bytes ?? 0)),
    row('writers slowed by the commit log', slowed > 0
      ? `${whole(slowed)}×, ${timeText(metrics.commit_log_slowed_ns)}` : 'never'),
    row('values only on disk', whole(metrics.cold_keys ?? 0)),
  ]);
}

function setState(kind, text) {
  const state = at('state');
  state.className = `state ${kind}`;
  setText(state, text);
}

function showInfo(info) {
  setState(info.ready ? 'good' : 'bad', info.ready ? 'ready' : `not ready: ${info.reason}`);
  setText(at('version'), info.version);
  setText(at('shard'), `shard ${info.shard}`);
  at('shard').hidden = info.shard === '';
  const replication = replicationText(info.metrics);
  setText(at('replication'), `replication: ${replication}`);
  at('replication').hidden = replication === '';
  setText(at('uptime'), durationText(info.uptime_seconds));
  setText(at('durability'), info.durability);
  setText(at('keys'), whole(info.metrics.keys ?? 0));
  setText(at('clients_short'), whole(info.metrics.connections ?? 0));
  showOperations();
  showTimes();
  showClients(info);
  showDurability(info);
  showReplication(info);
}

// --- Asking

async function ask(path) {
  const answer = await fetch(path, {cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS)});
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

function showLost() {
  if (lost === null) {
    lost = performance.now();
    addEvent('bad', 'connection lost');
  }
  document.body.classList.add('lost');
  setState('bad', `connection lost: no answer for ${durationText((performance.now() - lost) / 1000)}`);
}

let rounds = 0;
async function round() {
  let info;
  let clients;
  let followers = null;
  try {
    info = await ask('/info.json');
    clients = await ask('/clients.json');
    if (isPrimary(info)) followers = await ask('/followers.json');
    if (rounds++ % 2 === 0) segments = await ask('/segments.json');
  } catch {
    showLost();
    return;
  }
  if (lost !== null) addEvent('', 'connected again');
  lost = null;
  document.body.classList.remove('lost');
  addSample(info);
  showInfo(info);
  showBusiest(clients);
  showFollowers(followers);
  if (segments !== null) showSegments();
}

let asks = false;
async function askWhileVisible() {
  if (asks) return;
  asks = true;
  while (!document.hidden) {
    const begin = performance.now();
    await round();
    const rest = Math.max(0, PERIOD_MS - (performance.now() - begin));
    await new Promise((resolve) => { setTimeout(resolve, rest); });
  }
  asks = false;
}

makeChart();
new ResizeObserver(drawMap).observe(at('map'));
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawMap);
document.addEventListener('visibilitychange', askWhileVisible);
askWhileVisible();

// The part of the console page about replication, which is hidden where the server has no part in it. It uses
// the functions of console.js.
'use strict';

const ALARM_SHARE = 0.75;  // of --replication_buffer, as in docs/operating/alerts.yml

const ROLES = ['', 'follower', 'waiting primary', 'primary'];  // by replication_role

// As in kvctl top (tools/kvctl/health.h).
function replicationText(metrics) {
  const role = metrics.replication_role ?? 0;
  if (role === 0) return '';
  const text = `${ROLES[role] ?? 'unknown role'}, epoch ${metrics.replication_epoch}`;
  if (role === 1) return `${text}, groups applied ${whole(metrics.groups_applied)}`;
  const all = metrics.followers + metrics.followers_away;
  if (all === 0) return `${text}, no followers`;
  const pending = Math.max(0, metrics.groups_shipped - metrics.groups_acknowledged);
  return `${text}, followers ${metrics.followers} of ${all}, groups pending ${whole(pending)}`;
}

const isPrimary = ({metrics}) => (metrics.replication_role ?? 0) >= 2;

function showReplication({metrics}) {
  const role = metrics.replication_role ?? 0;
  at('replication_section').hidden = role === 0;
  if (role === 0) return;
  const row = (text, value, alarm) => ({cells: [text, value], alarm});
  const rows = [row('role', ROLES[role] ?? 'unknown', role === 2), row('epoch', whole(metrics.replication_epoch))];
  if (role === 1) {
    rows.push(row('groups applied', whole(metrics.groups_applied)), row('groups applied per s', rateOf('groups_applied')));
  }
  if (metrics.replication_buffer_bytes > 0) {
    const {replication_pending_bytes: waiting, replication_buffer_bytes: most} = metrics;
    const pending = Math.max(0, metrics.groups_shipped - metrics.groups_acknowledged);
    rows.push(
      row('groups sent per s', rateOf('groups_shipped')),
      row('groups that wait for followers', whole(pending)),
      row('memory of these', `${bytesText(waiting)} of ${bytesText(most)}`, waiting > ALARM_SHARE * most));
  }
  setRows(at('replication_table'), rows);
}

// The answer of /followers.json before the last one.
let followersBefore = null;

// `answer`: null if the server is no primary.
function showFollowers(answer) {
  const followers = answer?.followers ?? [];
  at('followers').hidden = followers.length === 0;
  const before = new Map((followersBefore?.followers ?? []).map((one) => [one.address, one]));
  const seconds = followersBefore === null ? 0 : ((answer?.now_unix_ms ?? 0) - followersBefore.now_unix_ms) / 1000;
  followersBefore = answer;
  setRows(at('followers_table'), followers.map(({address, state, acknowledged}) => {
    const known = before.get(address);
    const rate = known !== undefined && seconds > 0 ? (acknowledged - known.acknowledged) / seconds : null;
    const behind = acknowledged > 0 ? whole(Math.max(0, answer.last_group - acknowledged)) : '–';
    return {cells: [address, state, rate === null ? '–' : rateText(Math.max(0, rate)), behind],
            alarm: state !== 'connected'};
  }));
}

import { Tidemark } from './tidemark.js';
import { apply, begin, choices, seal, turn } from './game.js';

const $ = id => document.getElementById(id);
const url = document.documentElement.dataset.tidemark;
const tm = new Tidemark(url);
const form = $('play').elements;

// What this tab must know when it is loaded again. Each tab is a player of its own.
const tab = JSON.parse(sessionStorage.getItem('duel')) ?? {name: '', skill: 1200};
const save = changes => sessionStorage.setItem('duel', JSON.stringify(Object.assign(tab, changes)));
// A tab that neither searches nor plays.
const none = {ticket: null, since: 0, assignment: null, match: null, clock: 0, seen: 0, secrets: {}};

let view; // what is shown: lobby, waiting, match
let ended = new AbortController(); // aborted when the view is left
let queue; // as the service describes it

function online(is) {
  $('state').textContent = is ? 'connected' : 'The service does not answer. Trying again …';
  $('state').className = is ? 'open' : '';
}

// put sets a text. One that is the same isn't announced again.
function put(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

const problem = (text = '') => put('problem', text);

// show goes to a view. The focus follows, except when the page is loaded.
function show(next) {
  ended.abort();
  ended = new AbortController();
  for (const name of ['lobby', 'waiting', 'match']) $(name).hidden = name !== next;
  document.title = {lobby: 'A duel on Tidemark', waiting: 'Searching – duel', match: 'Match – duel'}[next];
  if (view) document.querySelector(`#${next} h2`).focus();
  view = next;
  tick();
  return ended.signal;
}

function lobby(text) {
  save(none);
  show('lobby');
  problem(text);
}

function start() {
  save({...none, ticket: crypto.randomUUID(), since: Date.now()});
  void search();
}

// search waits for the assignment. The ID of the ticket is stored before it is created, and creating it again changes
// nothing: so this is what a page that was loaded again does, too.
async function search() {
  const {ticket: id, name, skill} = tab;
  const signal = show('waiting');
  problem();
  $('cancel').disabled = false;
  const ticket = tm.tickets.create({
    queue: 'duel', id, statistics: [{name: 'skill', value: skill}],
    criteria: [{name: 'skill', minValue: skill - 100, maxValue: skill + 100}],
  }, {signal, retryFor: Infinity});
  try {
    const assignment = await ticket.assignment({signal});
    save({assignment, match: begin(), seen: Date.now()});
    play();
  } catch (error) {
    if (signal.aborted) return;
    if (error.slug !== 'ticket-expired') return lobby(error.message);
    const early = queue && Date.now() - tab.since < milliseconds(queue.definition.ticketTTL) - 1000;
    if (early) start(); // the service has not heard from this page for a while: it was asleep, or offline
    else lobby(`Nobody was found for you, ${name}. Try again later.`);
  }
}

async function cancel() {
  const {signal} = ended;
  $('cancel').disabled = true;
  try {
    await tm.tickets.open(tab.ticket).cancel({retryFor: 5000, signal});
    if (!signal.aborted) lobby();
  } catch (error) {
    if (signal.aborted || error.slug === 'ticket-matched') return; // the match begins
    lobby(`${error.message}. Nobody listens to your search any more, so it ends by itself.`);
  }
}

const channel = () => tm.channel(tab.assignment.connection);

// send publishes a move. The ID makes sure that it is made once, however often it is sent.
function send(kind, move = {}, id = `${kind}-${tab.match.round}-${tab.assignment.team}`) {
  const content = {player: tab.assignment.team, kind, round: tab.match.round, ...move};
  return channel().publish(content, {id, signal: ended.signal, retryFor: Infinity}).catch(failed);
}

function failed(error) {
  if (!ended.signal.aborted) problem(error.message);
}

// play takes part in the match. A message is acknowledged when the tab has stored what it changed: when the page is
// loaded again, the channel sends what follows.
function play() {
  const signal = show('match');
  problem();
  proceed();
  if (tab.match.over) return;
  const subscription = channel().subscribe('player-' + tab.assignment.team, async m => {
    if (signal.aborted || m.clock <= tab.clock) return;
    const match = structuredClone(tab.match);
    const changed = await apply(match, {at: m.publishedAt.getTime(), content: m.content});
    if (signal.aborted) return;
    save({match, clock: m.clock, seen: changed ? Date.now() : tab.seen});
    proceed();
    if (match.over) void subscription.close();
  }, {from: 'earliest', signal});
  subscription.on('state', s => s.state === 'closed' || online(s.state === 'open'));
  subscription.on('gap', () => lobby('The match is over, because some of its messages are gone.'));
  subscription.on('error', failed);
}

// proceed shows the match, and makes the moves for which the player isn't needed.
function proceed() {
  draw();
  const {step, round, moves, over} = tab.match;
  const secret = tab.secrets[round];
  if (over || moves[tab.assignment.team]) return;
  if (step === 'hello') void send('hello', {name: tab.name, skill: tab.skill});
  else if (step === 'seal' && secret) void send('seal', {sealed: secret.sealed});
  else if (step === 'open' && secret) void send('open', {choice: secret.choice, salt: secret.salt});
}

async function choose(choice) {
  const salt = crypto.randomUUID();
  const {round} = tab.match;
  const sealed = await seal(tab.assignment.team, round, choice, salt);
  const {step, round: now, over} = tab.match;
  if (over || step !== 'seal' || now !== round || tab.secrets[round]) return; // chosen before
  save({secrets: {...tab.secrets, [round]: {choice, salt, sealed}}});
  proceed();
}

function leave() {
  // The page doesn't wait: without this message the opponent wins by time.
  if (!tab.match.over) channel().publish({player: tab.assignment.team, kind: 'leave'}).catch(() => {});
  lobby();
}

// What is shown.

function icon(name) {
  const space = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(space, 'svg');
  const use = svg.appendChild(document.createElementNS(space, 'use'));
  use.setAttribute('href', '#' + name);
  svg.setAttribute('aria-hidden', 'true');
  return svg;
}

const outcome = ({winner}, team) => winner === null ? 'draw' : winner === team ? 'won' : 'lost';

// headline says how the match stands, to me.
function headline({step, round, rounds, moves, over}, team, other) {
  if (over) {
    const texts = {
      left: [`${other} has left. You win!`, 'You have left.'],
      time: [`${other} did not answer in time. You win!`, `You did not choose in time. ${other} wins.`],
      won: ['You win the match!', `${other} wins the match.`],
    };
    return texts[over.why][over.winner === team ? 0 : 1];
  }
  if (step === 'hello') return `Found an opponent. Waiting for ${other} …`;
  if (tab.secrets[round]) return `You have chosen ${tab.secrets[round].choice}. Waiting for ${other} …`;
  const results = {won: 'You win the round. ', lost: `${other} wins the round. `, draw: 'A draw. '};
  const result = rounds.length ? results[outcome(rounds.at(-1), team)] : '';
  return result + (moves[1 - team] ? `${other} has chosen. Choose!` : 'Choose!');
}

function draw() {
  const {match, secrets, assignment: {team}} = tab;
  const {players, rounds, wins, over, round} = match;
  const other = players[1 - team] ?? {name: 'the opponent'};
  const chosen = secrets[round]?.choice;
  put('prompt', headline(match, team, other.name));
  document.title = `${over ? 'Over' : chosen ? 'Waiting' : 'Your turn'} – duel with ${other.name}`;
  $('match').dataset.result = over ? outcome(over, team) : '';
  put('me', `${tab.name} (you)`);
  put('my-skill', `skill ${tab.skill}`);
  put('other', other.name);
  put('other-skill', other.skill ? `skill ${other.skill}` : 'joining …');
  put('wins', `${wins[team]} : ${wins[1 - team]}`);
  $('wins').ariaLabel = `Rounds won: you ${wins[team]}, ${other.name} ${wins[1 - team]}`;
  for (const b of $('choices').children) {
    b.ariaPressed = String(b.value === chosen);
    b.ariaDisabled = String(Boolean(chosen)); // unlike a disabled one it keeps the focus
  }
  $('rounds').replaceChildren(...rounds.map(r => {
    const item = document.createElement('li');
    item.className = outcome(r, team);
    const [mine, theirs] = [r.choices[team], r.choices[1 - team]];
    item.append(icon(mine), `${outcome(r, team)}: ${mine} against ${theirs}`, icon(theirs));
    return item;
  }));
  $('again').hidden = !over;
  put('leave', over ? 'Change name or skill' : 'Leave');
  if (over && $('choices').contains(document.activeElement)) $('again').focus();
  $('choices').hidden = Boolean(over) || match.step === 'hello';
  tick();
}

const clock = ms => `${Math.floor(ms / 60_000)}:${String(Math.floor(ms / 1000) % 60).padStart(2, '0')}`;

// milliseconds reads a duration of the service, such as 1m30s.
function milliseconds(duration) {
  const units = {h: 3_600_000, m: 60_000, s: 1000, ms: 1};
  return [...duration.matchAll(/([\d.]+)(ms|[hms])/g)].reduce((sum, [, n, unit]) => sum + n * units[unit], 0);
}

// wait shows how the search stands: what the ticket accepts now, and when that changes, as the queue's definition says.
function wait() {
  const waited = Date.now() - tab.since;
  put('waited', clock(waited));
  if (!queue) return;
  const steps = queue.definition.match.widen ?? [];
  const reach = 100 + steps.filter(s => milliseconds(s.after) <= waited).reduce((sum, s) => sum + s.by.skill, 0);
  const from = Math.max(800, tab.skill - reach), to = Math.min(2000, tab.skill + reach);
  put('accepts', `Your skill is ${tab.skill}. You accept opponents from ${from} to ${to}.`);
  $('own').style.left = `${(tab.skill - 800) / 12}%`;
  $('range').style.left = `${(from - 800) / 12}%`;
  $('range').style.width = `${(to - from) / 12}%`;
  const next = steps.map(s => milliseconds(s.after)).find(after => after > waited);
  const n = queue.tickets.SEARCHING;
  put('queue', [n > 1 ? `${n} players search.` : 'You are the only player who searches.',
    next ? `You accept more in ${clock(next - waited + 999)}.` : '',
    `The search ends in ${clock(Math.max(0, milliseconds(queue.definition.ticketTTL) - waited))}.`].join(' '));
}

// claim claims the match when the opponent has let the time for a move pass: the rules check that by Redis's times.
let claiming = false;
async function claim() {
  if (claiming) return;
  claiming = true;
  await send('claim', {}, crypto.randomUUID());
  setTimeout(() => claiming = false, 5000); // and again, if it was too early
}

// countdown shows how long a player has for a move that the other has made.
function countdown() {
  const {moves, over} = tab.match;
  const mine = moves[tab.assignment.team], theirs = moves[1 - tab.assignment.team];
  const left = tab.seen + turn + 1000 - Date.now();
  const runs = !over && Boolean(mine) !== Boolean(theirs);
  $('left').hidden = Boolean(over);
  put('left', runs ? clock(Math.max(0, left)) : '');
  if (runs && mine && left <= 0) void claim();
}

function tick() {
  if (view === 'waiting') wait();
  if (view === 'match') countdown();
}

// look reads the queue, while that is of use.
async function look() {
  if (view === 'match') return;
  try {
    const answer = await fetch(url + '/v1/queues/duel', {signal: AbortSignal.timeout(5000)});
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.detail);
    queue = body;
    put('crowd', `Players who search now: ${queue.tickets.SEARCHING}`);
    if (view !== 'match') online(true);
  } catch {
    if (view !== 'match') online(false);
  }
}

$('choices').append(...choices.map(name => {
  const b = document.createElement('button');
  b.append(icon(name), name);
  b.value = name;
  b.addEventListener('click', () => choose(name));
  return b;
}));
form.name.value = tab.name;
form.skill.value = tab.skill;
const level = () => put('level', form.skill.value);
form.skill.addEventListener('input', level);
level();
$('play').addEventListener('submit', event => {
  event.preventDefault();
  save({name: form.name.value.trim() || 'Somebody', skill: Number(form.skill.value)});
  start();
});
$('again').addEventListener('click', start);
$('cancel').addEventListener('click', cancel);
$('leave').addEventListener('click', leave);
setInterval(tick, 250);
setInterval(look, 2000);
void look();
if (tab.assignment) play();
else if (tab.ticket) void search();
else lobby();

// The rules. Both pages apply the messages of the match's channel in the order of its clock, with Redis's times, so
// that they see the same match.

export const choices = ['rock', 'paper', 'scissors'];
export const turn = 20_000; // milliseconds that a player has for a move when the other has made it
const victory = 2; // rounds

const beats = (a, b) => (choices.indexOf(a) - choices.indexOf(b) + 3) % 3 === 1;

// seal returns what a player publishes of a choice until the other has chosen, too: without the salt it says nothing.
// It is of the player and the round, so that nobody can publish a copy of the other's and open that with the same salt.
export async function seal(player, round, choice, salt) {
  const sum = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(`${player} ${round} ${choice} ${salt}`));
  return Array.from(new Uint8Array(sum), byte => byte.toString(16).padStart(2, '0')).join('');
}

// begin returns a match before its first message. It has steps: in `hello` the players say who they are, and in each
// round they `seal` a choice and `open` it. In a step each player makes one move.
export function begin() {
  return {step: 'hello', round: 0, moves: [null, null], since: 0, players: [], rounds: [], wins: [0, 0], over: null};
}

// apply changes the match by a message, and reports whether it did. What isn't a move that is due is ignored: anybody
// may publish anything.
export async function apply(match, {at, content}) {
  const {player, kind, round} = content ?? {};
  if (match.over || (player !== 0 && player !== 1)) return false;
  const other = 1 - player;
  if (kind === 'leave') match.over = {winner: other, why: 'left'};
  const waits = match.moves[player] && !match.moves[other];
  if (kind === 'claim' && waits && at - match.since >= turn) match.over = {winner: player, why: 'time'};
  if (match.over) return true;

  const due = kind === match.step && round === match.round && !match.moves[player];
  if (!due || !await allowed(match, content)) return false;
  match.moves[player] = content;
  match.since = at;
  if (match.moves[other]) advance(match);
  return true;
}

async function allowed({step, round, seals}, {player, name, skill, sealed, choice, salt}) {
  if (step === 'hello') return typeof name === 'string' && name.length <= 20 && Number.isInteger(skill);
  if (step === 'seal') return typeof sealed === 'string';
  return choices.includes(choice) && await seal(player, round, choice, salt) === seals[player];
}

// advance ends a step in which both players have made their moves.
function advance(match) {
  const {step, moves} = match;
  match.moves = [null, null];
  if (step === 'seal') {
    match.seals = moves.map(m => m.sealed);
    match.step = 'open';
    return;
  }
  if (step === 'hello') match.players = moves.map(({name, skill}) => ({name, skill}));
  else endRound(match, moves.map(m => m.choice));
  match.step = 'seal';
  match.round++;
}

function endRound(match, [a, b]) {
  const winner = a === b ? null : beats(a, b) ? 0 : 1; // a draw has none
  match.rounds.push({choices: [a, b], winner});
  if (winner !== null && ++match.wins[winner] === victory) match.over = {winner, why: 'won'};
}

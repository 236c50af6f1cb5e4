import { Tidemark } from './tidemark.js';

const $ = id => document.getElementById(id);
const me = localStorage.getItem('name') ?? await new Promise(resolve => {
  $('enter').addEventListener('close', () => {
    localStorage.setItem('name', $('enter').querySelector('input').value);
    resolve(localStorage.getItem('name'));
  });
  $('enter').addEventListener('cancel', event => event.preventDefault());
  $('enter').showModal();
});
const tm = new Tidemark(document.documentElement.dataset.tidemark, {retryFor: Infinity});
const rooms = ['Lobby', 'Kitchen'].map(name => new Room(name));
let shown = rooms[0];

// element makes an element. Texts are never taken for HTML.
function element(name, className, ...children) {
  const e = document.createElement(name);
  e.className = className;
  e.append(...children);
  return e;
}

// textOf returns what is shown of a value of a message, a part of it if it is long. The channel takes any JSON, from
// whoever may publish: a handler that throws would end the subscription.
const textOf = value => (typeof value === 'string' ? value : JSON.stringify(value) ?? '').slice(0, 2000);

// A room is a channel of the service, and me a subscriber of it, whose mark is how far I have read.
function Room(name) {
  const channel = tm.channel('chat.' + name);
  const key = `${me} ${name}`;
  const kept = new Map(); // what this browser has seen, by ID, and what is being sent
  const unread = []; // messages to acknowledge
  let readers = [];

  // load shows what another tab, or this page before, has kept.
  this.load = () => {
    for (const m of JSON.parse(localStorage.getItem(key) ?? '[]')) kept.set(m.id, m);
    this.draw();
  };
  addEventListener('storage', event => event.key === key && this.load());

  this.button = element('button', '');
  this.button.addEventListener('click', () => show(this));

  this.send = text => {
    const id = crypto.randomUUID();
    kept.set(id, {id, from: me, text});
    this.draw();
    return channel.publish({from: me, text}, {id}); // tried until it succeeds: once, as the ID is the same
  };

  this.draw = () => {
    this.button.replaceChildren(name, ...(unread.length ? [element('b', '', String(unread.length))] : []));
    this.button.ariaCurrent = String(this === shown);
    if (this !== shown) return;
    const place = m => m.clock ?? Infinity; // what is being sent comes last
    const messages = [...kept.values()].sort((a, b) => place(a) - place(b));
    const lastRead = r => messages.findLast(m => m.clock <= r.mark && m.from !== r.name);
    $('messages').replaceChildren(...messages.map(m => {
      const here = readers.filter(r => r.name !== me && lastRead(r) === m);
      const time = m.at ? new Date(m.at).toLocaleTimeString([], {hour: '2-digit', minute: '2-digit'}) : 'sending …';
      return element('li', m.from === me ? 'mine' : '',
        element('small', '', m.from === me ? time : `${m.from}, ${time}`),
        element('p', '', m.text),
        element('small', 'readers', here.length ? 'read by ' + here.map(r => r.name).join(', ') : ''));
    }));
    $('messages').lastElementChild?.scrollIntoView();
  };

  // read acknowledges what is on the screen.
  this.read = () => {
    if (this !== shown || document.hidden || !unread.length) return;
    unread.pop().ack().then(look).catch(failed); // and all before it
    unread.length = 0;
    this.draw();
  };

  // look shows who has read how far.
  const look = async () => {
    ({subscribers: readers} = await channel.describe());
    this.draw();
  };
  setInterval(() => document.hidden || look().catch(() => {}), 3000);

  const subscription = channel.subscribe(me, m => {
    const {from, text = m.content} = m.content ?? {};
    kept.set(m.id, {id: m.id, clock: m.clock, at: m.publishedAt, from: textOf(from), text: textOf(text)});
    localStorage.setItem(key, JSON.stringify([...kept.values()].filter(k => k.clock).slice(-100)));
    unread.push(m);
    this.draw();
    this.read();
  }, {from: 'earliest', ack: 'manual'});
  subscription.on('state', s => {
    $('state').textContent = s.state === 'open' ? 'online' : 'offline: messages are sent later';
    $('state').className = s.state;
  });
  subscription.on('error', failed);
  subscription.on('gap', gap => console.info(`${name}: ${gap.count || 'some'} messages are missing: ${gap.reason}`));
}

function failed(error) {
  $('state').textContent = error.message;
  $('state').className = 'waiting';
}

function show(room) {
  shown = room;
  rooms.forEach(r => r.draw());
  room.read();
}

$('rooms').append(...rooms.map(r => r.button));
$('write').addEventListener('submit', event => {
  event.preventDefault();
  shown.send($('write').text.value).catch(failed);
  $('write').reset();
});
document.addEventListener('visibilitychange', () => shown.read());
show(rooms[0]);
rooms.forEach(r => r.load());

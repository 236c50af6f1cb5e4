const $ = id => document.getElementById(id);
const streams = document.documentElement.dataset.tidemark + '/v1/stream/ai/';
let [chat, count] = location.hash.slice(1).split('/'); // the address has the chat, and the number of its questions
chat ||= crypto.randomUUID();
count = Math.min(99, count) || 0;

function state(text, busy) {
  $('state').textContent = text;
  $('send').disabled = busy;
}

// show follows the stream of an answer from an offset to its end.
function show(n, element = $('answers').appendChild($('answer').content.children[0].cloneNode(true)), offset = '-1') {
  const url = `${streams}${chat}/${n}?offset=${offset}`;
  const events = new EventSource(url + '&live=sse');
  let values = [];
  events.addEventListener('data', event => { values = JSON.parse(event.data); });
  events.addEventListener('control', event => { // follows its data: what has no offset yet is read again
    const {streamNextOffset, streamClosed} = JSON.parse(event.data);
    for (const value of values) element.children[value.question ? 0 : 1].append(value.question ?? value);
    [values, offset] = [[], streamNextOffset];
    element.scrollIntoView({block: 'end'});
    state(streamClosed ? '' : 'answering …', !streamClosed);
    if (!streamClosed) return;
    events.close();
    element.className = 'complete';
  });
  events.onerror = async () => {
    events.close(); // it would read from its first offset
    const answer = await fetch(url, {cache: 'no-store'}).catch(error => error);
    if (answer.status === 404 || answer.status === 410) return state('This chat is gone.', true);
    if (!answer.ok) state('The service does not answer. Trying again …', true);
    setTimeout(show, 500, n, element, offset);
  };
}

$('ask').addEventListener('submit', async event => {
  event.preventDefault();
  state('asking …', true);
  const request = {method: 'POST', body: $('ask').question.value};
  const asked = await fetch(`answers/${chat}/${count + 1}`, request).catch(error => error);
  if (!asked.ok && asked.status !== 409) return state('This failed: ' + (asked.statusText ?? asked.message), false);
  $('ask').reset();
  history.replaceState(null, '', `#${chat}/${++count}`); // 409: it was asked in another tab
  show(count);
});
addEventListener('hashchange', () => location.reload());
for (let n = 1; n <= count; n++) show(n);

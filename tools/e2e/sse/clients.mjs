// Follows the channel ticker of a service with clients of server-sent events that aren't Tidemark's, and prints each
// message as a line: the client's name, a space and the message's ID. Its argument is the URL of the API.
import {fetchEventSource} from "@microsoft/fetch-event-source";
import {EventSource} from "eventsource";

const api = process.argv[2];
const show = (client, data) => console.log(client, JSON.parse(data).id);

function eventSource(client, path) {
  const events = new EventSource(api + path);
  events.addEventListener("message", e => show(client, e.data));
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) { // an answer other than 200, as while Redis is restarted
      setTimeout(eventSource, 200, client, path);
    }
  });
}

// The library is for pages. It reads these of a page's globals.
globalThis.window = globalThis;
globalThis.document = {hidden: false, addEventListener() {}, removeEventListener() {}};

function fetching(client, path) {
  fetchEventSource(api + path, {
    openWhenHidden: true,
    onmessage: e => {
      if (e.event === "message") show(client, e.data);
      else if (!e.data && !e.id) console.log(client, "empty"); // an ID alone says where a tail begins
    },
    onclose: () => { throw new Error("the stream has ended: resume"); },
    onerror: () => 200,
  });
}

eventSource("eventsource", "/channels/ticker/subscribers/ann/stream");
eventSource("eventsource-tail", "/channels/ticker/stream?from=earliest");
fetching("fetch-event-source", "/stream?sub=ticker/ben&ack=resume");
fetching("fetch-event-source-tail", "/stream?tail=ticker/earliest");
console.log("ready");

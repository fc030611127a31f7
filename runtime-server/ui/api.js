// Asking the server. The token lives in this tab's session storage and goes out in a header, never in
// an address. Addresses are relative, so that the page works behind a proxy's prefix.

const slot = "sampan-token";

export class Failure extends Error {
  constructor(status, text) {
    super(text);
    this.status = status; // 0: the server cannot be reached
  }
}

export const token = {
  get: () => sessionStorage.getItem(slot),
  set: (text) => sessionStorage.setItem(slot, text),
  forget: () => sessionStorage.removeItem(slot),
};

function request(path, options = {}) {
  const headers = { ...options.headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  return fetch(path, { ...options, headers, cache: "no-store", credentials: "omit", redirect: "error" })
    .catch((e) => {
      if (e.name === "AbortError") throw e;
      throw new Failure(0, "The server cannot be reached. Trying again.");
    });
}

async function explain(answer) {
  const body = await answer.json().catch(() => null);
  return new Failure(answer.status, body?.error ?? `The server answered ${answer.status}.`);
}

// `method` GET, POST or DELETE; gives the answer's JSON.
export async function ask(method, path, body) {
  const options = { method, signal: AbortSignal.timeout(20000) };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  let answer;
  try {
    answer = await request(path, options);
  } catch (e) {
    throw e instanceof Failure ? e : new Failure(0, "The server does not answer. Trying again.");
  }
  if (!answer.ok) throw await explain(answer);
  return answer.json();
}

// Server-sent events by fetch(), as EventSource sends no header. Calls onEvent(name, data) and
// onLink(up) until `signal` aborts; comes back by itself where it stopped.
export async function listen(path, onEvent, onLink, signal) {
  let last = "";
  for (let wait = 500; !signal.aborted; wait = Math.min(wait * 2, 10000)) {
    try {
      const answer = await request(path, { signal, headers: last ? { "Last-Event-ID": last } : {} });
      if (!answer.ok) throw await explain(answer);
      wait = 500;
      onLink(null);
      for await (const event of events(answer.body)) {
        last = event.id || last;
        if (event.data) onEvent(event.name, JSON.parse(event.data));
      }
    } catch (e) {
      if (signal.aborted) return;
      onLink(e);
      if (e.status === 401) return;
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const event = { id: "", name: "message", data: "" };
      for (const line of text.slice(0, end).split("\n")) {
        if (line.startsWith("id: ")) event.id = line.slice(4);
        else if (line.startsWith("event: ")) event.name = line.slice(7);
        else if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      yield event;
    }
  }
}

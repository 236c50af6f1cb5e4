// Values that components follow.
import { useEffect, useState } from "./lib/preact.js";

/** store returns a value that components follow with use, and other code with get and set. */
export function store(value) {
  const followers = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const follow of [...followers]) follow(() => next);
    },
    use() {
      const [now, follow] = useState(() => value);
      useEffect(() => {
        followers.add(follow);
        follow(() => value);
        return () => followers.delete(follow);
      }, []);
      return now;
    },
  };
}

/** kept returns a store whose value this browser keeps, such as a choice of how something is shown. */
export function kept(name, initial) {
  let value = initial;
  try {
    value = JSON.parse(localStorage.getItem(name)) ?? initial;
  } catch {
    // what another version has written, or a browser that keeps nothing
  }
  const of = store(value);
  return {
    ...of,
    set(next) {
      of.set(next);
      try {
        localStorage.setItem(name, JSON.stringify(next));
      } catch {
        // a browser that keeps nothing
      }
    },
  };
}

/** Events calls listeners of named events, each with one value. */
export class Events<Named> {
  /** Aborted when there will be no events any more, but the last ones. */
  protected readonly ended = new AbortController();
  readonly #listeners = new Map<keyof Named, Set<(value: never) => void>>();

  /** on adds a listener, until the signal is aborted or the returned function is called. */
  on<Name extends keyof Named>(
    name: Name,
    listener: (value: Named[Name]) => void,
    options: { signal?: AbortSignal } = {},
  ): () => void {
    let all = this.#listeners.get(name);
    if (!all) this.#listeners.set(name, (all = new Set()));
    all.add(listener);
    const off = () => void all.delete(listener);
    options.signal?.addEventListener("abort", off, { signal: this.ended.signal });
    return off;
  }

  /** emit calls the listeners. It reports whether there is one. What one throws is reported as any uncaught error. */
  protected emit<Name extends keyof Named>(name: Name, value: Named[Name]): boolean {
    const all = [...(this.#listeners.get(name) ?? [])] as ((value: Named[Name]) => void)[];
    for (const listener of all) {
      try {
        listener(value);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    return all.length > 0;
  }
}

// Programs for tests: a service on a Redis of its own, and proxies before it.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { connect, createServer as listen, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after } from "node:test";

const binary = process.env["TIDEMARK_TEST_BINARY"];
if (!binary) throw new Error("scripts/check-client.sh builds the service and sets TIDEMARK_TEST_BINARY");

const { timeout } = AbortSignal;

/** patience ends a step that a working client never takes so long for. */
export const patience = () => timeout(60_000);

// What browsers before 2024 don't have.
Object.assign(AbortSignal, { any: undefined, timeout: undefined });

/**
 * freeAddress returns an address on which no process listens. It isn't on 127.0.0.1, where connections and other
 * programs take a free port at any time.
 */
async function freeAddress(): Promise<string> {
  const server = listen().listen(0, "127.0.0.2");
  await once(server, "listening");
  const { address, port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return `${address}:${port}`;
}

/** Program is a process that can be ended and started again with the same arguments. */
class Program {
  #process: ChildProcess | undefined;

  constructor(
    readonly path: string,
    readonly args: readonly string[],
    readonly ready: RegExp,
  ) {}

  /** start runs the program until its output has `ready`. */
  async start(): Promise<void> {
    const child = (this.#process = spawn(this.path, this.args, { stdio: ["ignore", "pipe", "pipe"] }));
    const output: string[] = [];
    await new Promise<void>((resolve, reject) => {
      const read = (line: string) => {
        output.push(line);
        if (this.ready.test(line)) resolve();
      };
      createInterface(child.stdout!).on("line", read);
      createInterface(child.stderr!).on("line", read);
      child.once("error", reject);
      patience().addEventListener("abort", () => reject(new Error(`${this.path} is not ready:\n${output.join("\n")}`)));
      child.once("exit", () => reject(new Error(`${this.path} has ended:\n${output.join("\n")}`)));
    });
  }

  /** end sends a signal and waits until the process is gone. */
  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    await once(child, "exit");
  }
}

export interface Service {
  readonly url: string;
  readonly program: Program;
  readonly redis: Program;
  /** operate posts to the admin listener. */
  operate(path: string, body: unknown): Promise<void>;
  /** change runs a command of Redis. */
  change(...command: string[]): Promise<void>;
}

/**
 * startService runs a service with a Redis of its own until the test has ended, or the file's tests if it is started
 * outside of one.
 */
export async function startService(...options: string[]): Promise<Service> {
  const dir = await mkdtemp(join(tmpdir(), "tidemark-client-"));
  const socket = join(dir, "redis.sock");
  const redis = new Program(
    "redis-server",
    ["--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync",
      "always"],
    /ready to accept connections/i,
  );
  const address = await freeAddress();
  const socketPath = join(dir, "admin.sock");
  const program = new Program(
    binary!,
    ["serve", "--listen", address, "--grpc-listen", "off", "--admin-listen", "unix:" + socketPath,
      "--redis", "unix://" + socket, ...options],
    /tidemark is ready/,
  );
  after(async () => {
    await program.end("SIGTERM");
    await redis.end("SIGTERM");
    await rm(dir, { recursive: true });
  });
  await redis.start();
  await program.start();
  const operate = async (path: string, body: unknown) => {
    const call = request({ socketPath, path, method: "POST", signal: patience() }).end(JSON.stringify(body));
    const [answer] = (await once(call, "response")) as [IncomingMessage];
    answer.resume();
    if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode}`);
  };
  const change = async (...command: string[]) => {
    const [status] = await once(spawn("redis-cli", ["-e", "-s", socket, ...command], { stdio: "ignore" }), "exit");
    if (status !== 0) throw new Error(`redis-cli ${command[0]} ended with ${status}`);
  };
  return { url: "http://" + address, program, redis, operate, change };
}

export interface ProxyOptions {
  /** Answers a request in place of the service if it returns true. */
  answer?: (asked: IncomingMessage, body: string, answer: ServerResponse) => boolean;
  /** Passes an answer on. Default: as it comes. */
  pass?: (from: IncomingMessage, to: ServerResponse) => void;
  /** Passes upgrades on. Default: no, the connection is closed. */
  upgrades?: boolean;
}

/**
 * startProxy runs a proxy before a service until the test has ended, or the file's tests if it is started outside of
 * one. It returns its URL and the paths asked.
 */
export async function startProxy(service: string, options: ProxyOptions): Promise<{ url: string; paths: string[] }> {
  const paths: string[] = [];
  const target = new URL(service);
  const server: Server = createServer((asked, answer) => {
    const parts: Buffer[] = [];
    asked.on("data", (part: Buffer) => parts.push(part));
    asked.on("end", () => {
      const body = Buffer.concat(parts);
      paths.push(asked.method + " " + asked.url!.split("?")[0]);
      if (options.answer?.(asked, body.toString(), answer)) return;
      const { method, url: path, headers } = asked;
      const { hostname, port } = target;
      const passed = { hostname, port, method, path, headers: { ...headers, host: target.host } };
      const forwarded = request(passed, (from) => {
        answer.writeHead(from.statusCode!, from.headers);
        if (options.pass) options.pass(from, answer);
        else from.pipe(answer);
      });
      forwarded.on("error", () => answer.destroy());
      answer.on("close", () => forwarded.destroy());
      forwarded.end(body);
    });
  });
  server.on("upgrade", (asked: IncomingMessage, client: Socket) => {
    paths.push("UPGRADE " + asked.url!);
    if (!options.upgrades) return client.destroy();
    const upstream = connect(Number(target.port), target.hostname, () => {
      const headers = asked.rawHeaders.flatMap((h, i) => (i % 2 ? [] : [`${h}: ${asked.rawHeaders[i + 1]}`]));
      upstream.write(`${asked.method} ${asked.url} HTTP/1.1\r\n${headers.join("\r\n")}\r\n\r\n`);
      upstream.pipe(client).pipe(upstream);
    });
    upstream.on("error", () => client.destroy());
    client.on("error", () => upstream.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: "http://127.0.0.1:" + (server.address() as AddressInfo).port, paths };
}

/** until calls a function until it returns something true. */
export async function until<T>(call: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
  for (const end = patience(); ; end.throwIfAborted()) {
    const value = await call();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

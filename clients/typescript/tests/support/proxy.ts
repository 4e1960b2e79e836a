/** A proxy between an SDK and a server that can fail: it loses answers, refuses, waits, and counts calls. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What happens to a call: its answer is lost, it is refused with 429, or it gets no answer. */
export type Fault = "lose" | "refuse" | "hang";

export interface SeenCall {
  readonly method: string;
  readonly path: string;
  readonly body: any;
}

export class Proxy {
  readonly calls: SeenCall[] = [];
  url = "";
  private rule: (method: string, path: string) => Fault | undefined = () => undefined;
  private readonly http: Server;

  private constructor(private readonly target: string) {
    this.http = createServer((request, answer) => {
      // A connection that ended in between is the end of the call.
      this.handle(request, answer).catch(() => answer.destroy());
    });
  }

  static async start(target: string): Promise<Proxy> {
    const proxy = new Proxy(target);
    await new Promise<void>((resolve) => proxy.http.listen(0, "127.0.0.1", resolve));
    proxy.url = `http://127.0.0.1:${(proxy.http.address() as AddressInfo).port}`;
    return proxy;
  }

  /** Does it to the next call of this kind, and to no other. */
  once(fault: Fault, method: string, path: string): void {
    let isDone = false;
    this.rule = (m, p) => {
      if (isDone || m !== method || !p.startsWith(path)) return undefined;
      isDone = true;
      return fault;
    };
  }

  always(fault: Fault, method: string, path: string): void {
    this.rule = (m, p) => (m === method && p.startsWith(path) ? fault : undefined);
  }

  never(): void {
    this.rule = () => undefined;
  }

  count(method: string, path: string): number {
    return this.calls.filter((call) => call.method === method && call.path.startsWith(path)).length;
  }

  private async handle(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    const [method, path] = [request.method!, request.url!];
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const fault = this.rule(method, path);
    this.calls.push({ method, path, body: body ? JSON.parse(body) : undefined });
    if (fault === "hang") return;
    if (fault === "refuse") {
      const problem = { code: "overload", title: "The server is busy", status: 429, retry_after_ms: 300 };
      answer.writeHead(429).end(JSON.stringify(problem));
      return;
    }
    const { host, connection, "content-length": length, ...headers } = request.headers;
    const answered = await fetch(this.target + path, {
      method,
      headers: headers as Record<string, string>,
      ...(body ? { body } : {}),
    });
    const text = await answered.text();
    if (fault === "lose") answer.destroy();
    else answer.writeHead(answered.status).end(text);
  }

  async stop(): Promise<void> {
    this.http.closeAllConnections();
    await new Promise((resolve) => this.http.close(resolve));
  }
}

/**
 * Punctual with NestJS: kinds of tasks are providers, with what they need injected; the worker has the life of the application.
 *
 * ```sh
 * npm install punctual @nestjs/common@11 @nestjs/core@11 reflect-metadata rxjs
 * node nestjs.js                     # the worker
 * ```
 *
 * `experimentalDecorators` and `emitDecoratorMetadata` must be on, as NestJS has them.
 */
import "reflect-metadata";
import { pathToFileURL } from "node:url";
import { Injectable, Logger, Module, type BeforeApplicationShutdown, type OnApplicationBootstrap } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { App, retry, Worker, type Task } from "punctual";

@Injectable()
export class Mailer {
  async send(to: string, text: string): Promise<string> {
    return `to ${to}: ${text}`;
  }
}

interface Reminder {
  to: string;
  text: string;
}

/** Reminders that can be moved and withdrawn. */
@Injectable()
export class Reminders {
  private readonly remind;

  constructor(
    private readonly app: App,
    mailer: Mailer,
  ) {
    const options = { maxAttempts: 3, retry: retry.exponential("1s"), timeout: "30s" };
    this.remind = app.task("remind", options, async ({ to, text }: Reminder, ctx) => {
      ctx.log(`reminding ${to}`);
      return mailer.send(to, text);
    });
  }

  /** Said again under the same name, it moves the reminder. */
  async create(name: string, reminder: Reminder, at: Date): Promise<Task<string>> {
    return this.remind.insert(reminder, { key: `reminder:${name}`, at });
  }

  async withdraw(name: string): Promise<void> {
    await this.app.client.cancel(`key:reminder:${name}`);
  }
}

/** For processes that insert tasks: the web application, for example. */
@Module({
  providers: [{ provide: App, useFactory: () => new App({ queue: "reminders" }) }, Mailer, Reminders],
  exports: [App, Reminders],
})
export class TasksModule {}

/** Works while the application runs. */
@Injectable()
export class TaskWorker implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private worker: Worker | undefined;

  constructor(private readonly app: App) {}

  /** When all providers are made: every kind of task has its handler. */
  onApplicationBootstrap(): void {
    const log = new Logger("punctual");
    const logger = {
      debug: (message: string) => log.debug(message),
      info: (message: string) => log.log(message),
      warn: (message: string) => log.warn(message),
      error: (message: string) => log.error(message),
    };
    this.worker = new Worker(this.app, { logger }).start();
  }

  /** Before connections of other providers are closed, which handlers may need. */
  async beforeApplicationShutdown(): Promise<void> {
    await this.worker?.stop();
  }
}

/** For processes that run tasks. */
@Module({ imports: [TasksModule], providers: [TaskWorker] })
export class WorkerModule {}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const application = await NestFactory.createApplicationContext(WorkerModule);
  // SIGTERM and SIGINT end it in order.
  application.enableShutdownHooks();
}

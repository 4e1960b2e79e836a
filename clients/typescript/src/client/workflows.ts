/** The calls about workflows: tasks that follow each other. */
import { get, idempotencyKey, path, post } from "../call.js";
import { optionalMs, type Duration } from "../durations.js";
import { encode, present, type JsonObject } from "../json.js";
import { isFinishedWorkflow, pageOf, wireNames, workflowOf, type Page, type Workflow } from "../models.js";
import { scheduledTaskFields, type ScheduledTask } from "../new-task.js";
import { Group, type PageOptions } from "./operations.js";
import { waitFor, type WaitOptions } from "./tasks.js";

/** A node of a workflow to begin. */
export interface NewNode {
  /** What it runs; its payload may have parts that are `expr(…)`. */
  readonly task?: ScheduledTask;
  /** A workflow in place of a task. */
  readonly workflow?: NewWorkflow;
  /** The nodes that it waits for. */
  readonly after?: readonly string[];
  /** How many of them must have succeeded; `all` unless given. */
  readonly join?: "all" | "any" | { readonly at_least: number };
  readonly delay?: Duration;
  /** CEL: the node is skipped when it is false. */
  readonly when?: string;
  /** CEL that gives an array: the node runs once for each item. */
  readonly forEach?: string;
  /** Undoes the node when a later one fails. */
  readonly compensate?: { readonly task: ScheduledTask };
  /** `fail` unless given. */
  readonly onFailure?: "fail" | "continue";
}

/** A workflow to begin. */
export interface NewWorkflow {
  readonly nodes: { readonly [node: string]: NewNode };
  readonly name?: string;
  readonly input?: unknown;
  readonly deadline?: Duration;
}

/** Workflows. */
export class Workflows extends Group {
  /** Begins a workflow. */
  async create(workflow: NewWorkflow): Promise<Workflow> {
    return this.begin("/v1/workflows", newWorkflowFields(workflow));
  }

  /** Begins a copy; with the same input, unless another is given. */
  async rerun(ref: string, options: { input?: unknown } = {}): Promise<Workflow> {
    return this.begin(path("workflows", ref, "rerun"), present({ input: options.input }));
  }

  private async begin(where: string, body: JsonObject): Promise<Workflow> {
    return this.send({
      method: "POST",
      path: where,
      read: workflowOf,
      repeat: "safe",
      body: encode(body),
      headers: idempotencyKey(),
    });
  }

  async get(ref: string): Promise<Workflow> {
    return this.send(get(path("workflows", ref), workflowOf));
  }

  /** Newest first, without their nodes. */
  async list(options: PageOptions & { name?: string; state?: string } = {}): Promise<Page<Workflow>> {
    return this.send(get("/v1/workflows", pageOf(workflowOf), { ...options }));
  }

  /** Waits until a workflow is over; after a `WaitTimeout` it continues. */
  async wait(ref: string, options: WaitOptions = {}): Promise<Workflow> {
    const name = (last: Workflow) => `workflow ${ref} is ${last.state}`;
    return waitFor(() => this.get(ref), isFinishedWorkflow, name, options);
  }

  /** No further node begins; completed work is undone. */
  async cancel(ref: string, options: { reason?: string } = {}): Promise<Workflow> {
    return this.send(post(path("workflows", ref, "cancel"), workflowOf, present(options)));
  }

  /** Continues from failed nodes. */
  async retry(ref: string): Promise<Workflow> {
    return this.send(post(path("workflows", ref, "retry"), workflowOf));
  }

  /** Marks a node as done. */
  async skip(ref: string, node: string): Promise<Workflow> {
    return this.send(post(path("workflows", ref, "nodes", node, "skip"), workflowOf));
  }

  /** A text that Mermaid or Graphviz (`dot`) draw. */
  async graph(ref: string, format: "mermaid" | "dot" = "mermaid"): Promise<string> {
    return this.send({ ...get(path("workflows", ref, "graph"), String, { format }), isText: true });
  }

  /** Nodes and edges, with the fields of the API. */
  async graphData(ref: string): Promise<JsonObject> {
    return this.send(get(path("workflows", ref, "graph"), (raw) => raw as JsonObject, { format: "json" }));
  }
}

function newWorkflowFields(workflow: NewWorkflow): JsonObject {
  const nodes = Object.entries(workflow.nodes).map(([name, node]) => [name, nodeFields(node)]);
  return present({
    nodes: Object.fromEntries(nodes),
    name: workflow.name,
    input: workflow.input,
    deadline_ms: optionalMs(workflow.deadline),
  });
}

function nodeFields(node: NewNode): JsonObject {
  const { task, workflow, delay, compensate, ...rest } = node;
  return present({
    ...wireNames(rest),
    task: task && scheduledTaskFields(task),
    workflow: workflow && newWorkflowFields(workflow),
    delay_ms: optionalMs(delay),
    compensate: compensate && { task: scheduledTaskFields(compensate.task) },
  });
}

/** The messages of proto/cadvisor.proto, as the codec has them. */

export interface ContainerRequest {
  readonly id: string;
}

export interface ContainerResponse {
  readonly container: {
    readonly id: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly image: string;
    readonly spec: { readonly type_url: string; readonly value: Buffer };
  };
}

export interface TaskRequest {
  readonly container_id: string;
  readonly exec_id: string;
}

export type TaskStatus = (typeof taskStatus)[keyof typeof taskStatus];

/** CREATED has no counterpart: a container that Docker has only created is no task yet. */
export const taskStatus = { unknown: 0, running: 2, stopped: 3, paused: 4 } as const;

export interface TaskResponse {
  readonly process: {
    readonly container_id: string;
    readonly id: string;
    readonly pid: number;
    readonly status: TaskStatus;
    readonly exit_status: number;
  };
}

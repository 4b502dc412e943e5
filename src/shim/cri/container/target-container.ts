import type { Container } from "../../../domain/container.js";
import { invalidField, preconditionField } from "../../../domain/field-errors.js";
import { securityContextField } from "../../plan/security-options.js";

const field = `${securityContextField}.namespace_options.target_id`;

/**
 * A container may join the PID namespace of a running container of its own pod, and of no other: the CRI
 * defines TARGET so, and a namespace shows all processes of the pod that it belongs to.
 */
export function checkTarget({ id, sandboxId, snapshot }: Container, wantedSandboxId: string): void {
  if (sandboxId !== wantedSandboxId) throw invalidField(field, "is a container of another pod", id);
  const { running, status } = snapshot.state;
  if (!running) throw preconditionField(field, `the container is ${status}, not running`, id);
}

/** Device nodes of a container. */
import type { Device } from "../../domain/cri.js";
import type { DockerDevice } from "../../domain/create-body.js";
import type { FoundDevices } from "../ports/host.js";
import { preconditionField, problemField, unsupportedField } from "../../domain/field-errors.js";
import { isBelow, normalizePath } from "./paths.js";

/**
 * `expanded` has the device nodes of each host path that could be examined: the path itself, or for a
 * directory every device in it. Other paths are passed on when they are below /dev; anywhere else a path
 * might be a directory such as `/`, which the engine would search for devices.
 */
export function planDevices(
  devices: readonly Device[],
  expanded: ReadonlyMap<string, FoundDevices> | undefined,
): readonly DockerDevice[] {
  return devices.flatMap((device, index) => {
    const field = `config.devices[${index}].host_path`;
    const nodes = expanded?.get(device.host_path);
    if (nodes === undefined) {
      if (!isBelow(device.host_path, "/dev")) {
        throw unsupportedField(
          field,
          "cannot be checked on this engine's host; only paths below /dev can be used",
          device.host_path,
        );
      }
      return [toDocker(device, device.host_path, device.container_path)];
    }
    if ("reason" in nodes) throw problemField(field, nodes, device.host_path);
    if (nodes.length === 0) throw preconditionField(field, "no device nodes there", device.host_path);
    return nodes.map((node) => toDocker(device, node, containerPath(device, node)));
  });
}

function toDocker(device: Device, hostPath: string, path: string): DockerDevice {
  return { PathOnHost: hostPath, PathInContainer: path, CgroupPermissions: device.permissions };
}

/** A node of an expanded directory keeps its place below it. */
function containerPath(device: Device, node: string): string {
  const directory = normalizePath(device.host_path);
  if (!isBelow(node, directory)) return device.container_path;
  return `${normalizePath(device.container_path)}${normalizePath(node).slice(directory.length)}`;
}

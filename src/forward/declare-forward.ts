/** `dockershim forward` as commander sees it. */
import { ShimError } from "../lib/errors.js";
import type { CommandParts } from "../cli/command-parts.js";
import { wrongFlag } from "../cli/flag-values.js";
import { refuseArguments } from "../cli/flags.js";
import { resolvePlayEndpoint } from "../play/cli/play-endpoint.js";

interface Given {
  readonly container: string;
  readonly listen: string;
  readonly dockerEndpoint?: string;
  readonly streamingPort?: string;
}

export function addForwardCommands({ addCommand, refuseServeFlags, run, io }: CommandParts): void {
  const forward = addCommand("forward", "forward a socket of this host to the CRI server in a container");
  forward
    .option("--container <name>", "container of the dockershim image", "dockershim")
    .requiredOption("--listen <socket>", "socket to make: unix:///ABSOLUTE/PATH")
    .option("--docker-endpoint <endpoint>", "the Docker Engine of the container, as the server's flag")
    .option("--streaming-port <port>", "also forward this port of 127.0.0.1: that of --streaming-bind-addr")
    .action(async ({ container, listen, dockerEndpoint, streamingPort }: Given) => {
      refuseServeFlags("forward");
      refuseArguments(forward);
      const port = streamingPort === undefined ? {} : { streamingPort: parsePort(streamingPort) };
      const engine = dockerEndpoint === undefined ? {} : { dockerEndpoint };
      const { path } = resolvePlayEndpoint(listen, io.environment, "--listen");
      const options = { container, listen: path, ...engine, ...port };
      await run(() => import("./forward-command.js"), "runForward", options);
    });
  const dial = addCommand("dial", "join standard input and output to a socket", { hidden: true });
  dial.usage("address").action(async () => {
    const [address, ...rest] = dial.args;
    if (address === undefined || rest.length > 0) {
      throw new ShimError("invalid", 'command "dial": needs unix:///PATH or HOST:PORT');
    }
    await run(() => import("./dial-command.js"), "runDial", address);
  });
}

function parsePort(text: string): number {
  const port = /^\d+$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65535) return port;
  throw wrongFlag("--streaming-port", text, "must be from 1 to 65535");
}

/** Guides for cri-dockerd give it Docker's own directory, in which Docker has files with names of this program's. */

const dockerRoot = "/var/lib/docker";
const stateDirectory = `${dockerRoot}/dockershim`;

/** The state directory that serves in place of `directory`; undefined when that is not Docker's. */
export function inDockerRoot(directory: string): string | undefined {
  return directory === dockerRoot ? stateDirectory : undefined;
}

/** Where the checkpoints of a state directory are: in Docker's directory where cri-dockerd has them. */
export function checkpointsOf(directory: string): string {
  return `${directory === stateDirectory ? dockerRoot : directory}/sandbox`;
}

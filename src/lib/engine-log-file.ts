/** Where every engine keeps the log of a container; a link there is a log link. The first group is the id. */
export const engineLogFile = /\/containers\/([0-9a-f]{64})\/[^/]+$/;

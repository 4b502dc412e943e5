/** The initial dictionary of both compressors of a SPDY/3 connection: a constant of the protocol. */

/** Each preceded by its length, 32 bits. */
const counted = [
  ..."options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges".split(
    " ",
  ),
  ..."age allow authorization cache-control connection content-base content-encoding content-language".split(
    " ",
  ),
  ..."content-length content-location content-md5 content-range content-type date etag expect expires from".split(
    " ",
  ),
  ..."host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location".split(
    " ",
  ),
  ..."max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te".split(
    " ",
  ),
  ..."trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get status".split(
    " ",
  ),
  ...["200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"],
];

/** Follows without separators. */
const plain = [
  ...[
    100, 101, 201, 202, 205, 206, 300, 302, 303, 304, 305, 306, 307, 402, 405, 406, 407, 408, 409, 410, 411,
  ],
  ...[412, 413, 414, 415, 416, 417, 502, 504, 505],
  ...["203 Non-Authoritative Information", "204 No Content", "301 Moved Permanently", "400 Bad Request"],
  ...["401 Unauthorized", "403 Forbidden", "404 Not Found", "500 Internal Server Error"],
  ...["501 Not Implemented", "503 Service Unavailable", "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec"],
  ...[" 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT", "chunked,text/html,image/png,image/jpg,image/gif,"],
  ...[
    "application/xml,application/xhtml+xml,text/plain,text/javascript,public",
    "privatemax-age=gzip,deflate,",
  ],
  ...["sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."],
];

export const headerDictionary: Buffer = Buffer.concat([
  ...counted.map((word) => Buffer.concat([Buffer.of(0, 0, 0, word.length), Buffer.from(word, "latin1")])),
  Buffer.from(plain.join(""), "latin1"),
]);

/** Its Adler-32, which names it at the beginning of a compressed stream. */
export const headerDictionaryId = Buffer.of(0xe3, 0xc6, 0xa7, 0xc2);

#ifndef MUSTER_SERVER_PAGE_HTTP_LISTENER_H_
#define MUSTER_SERVER_PAGE_HTTP_LISTENER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/tls_files.h"
#include "server/page/http_message.h"

namespace muster {

// A listener of HTTP or HTTPS for browsers and Prometheus. A request has at most 16 KiB, of which a
// body 4 KiB, and 3 seconds to arrive; its answer has 15 seconds to leave. A connection carries one
// request. 32 connections are served at a time; a further one takes the place of the oldest that
// waits for its client. Every answer, also to what is no HTTP, forbids a browser to take anything
// from elsewhere, to run scripts in a page or to guess types, and others to frame it.
class HttpListener {
 public:
  struct Options {
    // HOST:PORT; port 0: a free one.
    std::string listen;
    // Certificate of HTTPS; none: HTTP.
    TlsFiles tls = {};
  };

  // Serves. `service` outlives the listener. InvalidArgument: not an address. Unavailable: cannot
  // listen there. Other errors as of ReadTlsFiles.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Create(const Options& options,
                                                              HttpService& service);
  // Refuses new connections, and ends those that wait for their clients. Blocks until the service
  // has answered what it was asked.
  virtual ~HttpListener() = default;

  // Returns the HOST:PORT that it listens on.
  virtual const std::string& address() const = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_PAGE_HTTP_LISTENER_H_

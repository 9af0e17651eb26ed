#ifndef MUSTER_SERVER_PAGE_PAGE_TLS_H_
#define MUSTER_SERVER_PAGE_PAGE_TLS_H_

#include <openssl/types.h>

#include <memory>

#include "absl/status/statusor.h"
#include "common/rpc/tls_files.h"

namespace muster {

struct SslContextDeleter {
  void operator()(SSL_CTX* context) const;
};
using SslContext = std::unique_ptr<SSL_CTX, SslContextDeleter>;

// Returns what a daemon needs to serve browsers by TLS 1.2 or later with its own certificate.
// Browsers have no certificate of the cluster, so none is asked for. Null: no file is named. Errors
// as of ReadTlsFiles.
absl::StatusOr<SslContext> MakePageTls(const TlsFiles& files);

}  // namespace muster

#endif  // MUSTER_SERVER_PAGE_PAGE_TLS_H_

#ifndef MUSTER_COMMON_RPC_CERTIFICATE_ENDS_H_
#define MUSTER_COMMON_RPC_CERTIFICATE_ENDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/tls_files.h"

namespace muster {

// Whom a process's certificate is of, and until when others believe it.
struct CertificateEnds {
  // The subject, and the names under which others call the process, such as
  // "CN = host-a (host-a, 10.0.0.7)".
  std::string subject;
  absl::Time certificate;
  // End of the first of the authority's certificates to end.
  absl::Time authority;
};

// Reads the certificates without judging them: an expired one is no error. InvalidArgument: a file
// cannot be read, or has no certificate. REQUIRES: !files.None().
absl::StatusOr<CertificateEnds> ReadCertificateEnds(const TlsFiles& files);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_CERTIFICATE_ENDS_H_

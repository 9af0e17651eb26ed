#ifndef MUSTER_COMMON_RPC_TLS_FILES_H_
#define MUSTER_COMMON_RPC_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"

namespace muster {

// Paths of what a process of the cluster proves itself with, each in PEM; all or none.
struct TlsFiles {
  // Certificates of the authorities from which everybody's certificate must come.
  std::string authority;
  // This process's own, followed by those between it and the authority, if any. Where others call
  // it, it names the host of the address under which they do (DNS name or IP address).
  std::string certificate;
  // Of the first in `certificate`; not encrypted.
  std::string key;

  bool None() const { return authority.empty() && certificate.empty() && key.empty(); }
};

// What a process does with its certificate. One that restricts its use (extended key usage) must
// allow it.
enum class TlsUse {
  // A user's client.
  kCalls,
  // A daemon: every one calls others, too.
  kCallsAndServes,
};

// What is in the files.
struct TlsIdentity {
  std::string authority;
  std::string certificate;
  std::string key;
};

// Reads the files, and makes sure that who calls, or is called, with them can be believed, so that
// a mistake shows here and not as a connection that somebody else refuses. InvalidArgument: one is
// not named, cannot be read, or has no PEM of its kind; or the key is of another certificate.
// FailedPrecondition: the certificate has expired, is not valid yet, does not come from the
// authority, or is not for this use; or other users may read or write the key. REQUIRES:
// !files.None().
absl::StatusOr<TlsIdentity> ReadTlsFiles(const TlsFiles& files, TlsUse use);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_TLS_FILES_H_

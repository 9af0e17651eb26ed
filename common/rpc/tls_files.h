#ifndef MUSTER_COMMON_RPC_TLS_FILES_H_
#define MUSTER_COMMON_RPC_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"

namespace muster {

// Paths of the PEM files with which a process of the cluster proves itself; all or none are given.
struct TlsFiles {
  // Certificates of the authorities from which everybody's certificate must come.
  std::string authority;
  // This process's certificate, followed by those between it and the authority, if any. If others
  // call the process, it names the host (DNS name or IP address) under which they do.
  std::string certificate;
  // Key of the first in `certificate`; not encrypted.
  std::string key;

  bool None() const { return authority.empty() && certificate.empty() && key.empty(); }
};

// A process's use of its certificate, which one with restrictions (extended key usage) must allow.
enum class TlsUse {
  // A user's client.
  kCalls,
  // A daemon, which calls others, too.
  kCallsAndServes,
};

// The contents of the files.
struct TlsIdentity {
  std::string authority;
  std::string certificate;
  std::string key;
};

// Reads the files, and checks that a process that calls, or is called, with them can be believed,
// so that a mistake shows here and not as a connection that somebody else refuses. InvalidArgument:
// one is not named, cannot be read, or has no PEM of its kind; or the key is of another
// certificate. FailedPrecondition: the certificate has expired, is not valid yet, does not come
// from the authority, or is not for this use; or other users may read or write the key. REQUIRES:
// !files.None().
absl::StatusOr<TlsIdentity> ReadTlsFiles(const TlsFiles& files, TlsUse use);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_TLS_FILES_H_

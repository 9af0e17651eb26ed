#ifndef MUSTER_COMMON_DAEMON_TLS_FLAGS_H_
#define MUSTER_COMMON_DAEMON_TLS_FLAGS_H_

#include <string>
#include <vector>

#include "common/rpc/tls_files.h"

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

// Adds --tls-authority, --tls-certificate and --tls-key, which every program has. An empty path is
// a usage error: only options that are left out mean plain text.
void AddTlsFlags(CLI::App& app, TlsFiles& files);

// Returns the same flags for a program that this one starts; none if no file is named. Their paths
// are absolute.
std::vector<std::string> TlsArguments(const TlsFiles& files);

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_TLS_FLAGS_H_

#ifndef MUSTER_COMMON_RPC_RPC_CREDENTIALS_H_
#define MUSTER_COMMON_RPC_RPC_CREDENTIALS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/tls_files.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace muster {

// The protection of all connections of a process: plain text, or TLS with certificates on both
// sides (a peer without one of the cluster's authority gets no connection). A value, cheap to copy.
// Thread-safe.
class RpcCredentials {
 public:
  static RpcCredentials PlainText();
  // Returns credentials of the files, or plain text if none is named. Reads the files now: a
  // renewed certificate counts from the next start on. Errors as of ReadTlsFiles.
  static absl::StatusOr<RpcCredentials> Of(const TlsFiles& files, TlsUse use);

  bool encrypted() const { return encrypted_; }
  const std::shared_ptr<grpc::ChannelCredentials>& client() const { return client_; }
  const std::shared_ptr<grpc::ServerCredentials>& server() const { return server_; }
  // For calls to the process's own port. The certificate that answers must come from the authority,
  // but may name any host: a certificate names the host under which others call, if any do.
  const std::shared_ptr<grpc::ChannelCredentials>& self() const { return self_; }
  // A host that the process's certificate names, for those calls: gRPC's server logs an error when
  // it is called by another. Empty: it names none, or addresses alone.
  const std::string& own_host() const { return own_host_; }

 private:
  RpcCredentials() = default;

  bool encrypted_ = false;
  std::shared_ptr<grpc::ChannelCredentials> client_;
  std::shared_ptr<grpc::ServerCredentials> server_;
  std::shared_ptr<grpc::ChannelCredentials> self_;
  std::string own_host_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_RPC_CREDENTIALS_H_

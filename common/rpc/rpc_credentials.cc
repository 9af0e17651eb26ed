#include "common/rpc/rpc_credentials.h"

#include "common/base/status_macros.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"

namespace muster {

RpcCredentials RpcCredentials::PlainText() {
  RpcCredentials credentials;
  credentials.client_ = grpc::InsecureChannelCredentials();
  credentials.server_ = grpc::InsecureServerCredentials();
  return credentials;
}

absl::StatusOr<RpcCredentials> RpcCredentials::Of(const TlsFiles& files, TlsUse use) {
  if (files.None()) return PlainText();
  MUSTER_ASSIGN_OR_RETURN(const TlsIdentity identity, ReadTlsFiles(files, use));
  RpcCredentials credentials;
  credentials.encrypted_ = true;
  credentials.client_ = grpc::SslCredentials({.pem_root_certs = identity.authority,
                                              .pem_private_key = identity.key,
                                              .pem_cert_chain = identity.certificate});
  grpc::SslServerCredentialsOptions server(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server.pem_root_certs = identity.authority;
  server.pem_key_cert_pairs.push_back({identity.key, identity.certificate});
  credentials.server_ = grpc::SslServerCredentials(server);
  return credentials;
}

}  // namespace muster

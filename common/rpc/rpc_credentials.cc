#include "common/rpc/rpc_credentials.h"

#include <vector>

#include "common/base/status_macros.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace muster {
namespace {

// Returns credentials that check all of a server's certificate except its name.
std::shared_ptr<grpc::ChannelCredentials> WithoutName(const TlsIdentity& identity) {
  const std::vector<grpc::experimental::IdentityKeyCertPair> own = {
      {.private_key = identity.key, .certificate_chain = identity.certificate}};
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(identity.authority, own));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  options.set_check_call_host(false);
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace

RpcCredentials RpcCredentials::PlainText() {
  RpcCredentials credentials;
  credentials.client_ = grpc::InsecureChannelCredentials();
  credentials.server_ = grpc::InsecureServerCredentials();
  credentials.self_ = credentials.client_;
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
  credentials.self_ = WithoutName(identity);
  return credentials;
}

}  // namespace muster

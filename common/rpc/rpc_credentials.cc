#include "common/rpc/rpc_credentials.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <vector>

#include "common/base/status_macros.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace muster {
namespace {

// A process without a gRPC server polls its sockets only while it calls. Calls fail at once while a
// channel connects again, so a timer of gRPC's has to carry the connection on. Its default, 5 s, is
// as long as the longest attempt to connect: a TLS handshake, which takes several polls, never
// ended, and tasks never found a restarted coordinator again. gRPC reads the interval from the
// environment; it is set before main, while no other thread can read that.
[[maybe_unused]] const int kPollsOften =
    setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "100", /*overwrite=*/0);

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

// Returns the first DNS name of a certificate, with a label in place of a wildcard; empty: none.
std::string HostIn(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free);
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) continue;
    const std::string host(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                           static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    return host.starts_with("*.") ? "self" + host.substr(1) : host;
  }
  return "";
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
  credentials.own_host_ = HostIn(identity.certificate);
  return credentials;
}

}  // namespace muster

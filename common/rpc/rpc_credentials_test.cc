// Who gets through to whom: gRPC servers and clients of this process, each with its own
// credentials.

#include "common/rpc/rpc_credentials.h"

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "common/files/bytes_of_file.h"
#include "common/rpc/certificates_for_testing.h"
#include "common/rpc/channel.h"
#include "common/rpc/parameter_service/parameter_stub.h"
#include "common/transport/descriptor.h"
#include "gmock/gmock.h"
#include "grpcpp/channel.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.grpc.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Validity = CertificatesForTesting::Validity;

class EncryptionService final : public v1::ParameterService::Service {
 public:
  grpc::Status GetServerStats(grpc::ServerContext* context, const v1::GetServerStatsRequest*,
                              v1::GetServerStatsReply*) override {
    encrypted = context->auth_context()->IsPeerAuthenticated();
    return grpc::Status::OK;
  }

  bool encrypted = false;
};

// A listener on a port of its own whose peers shake hands by OpenSSL alone: of gRPC's sockets there
// are only the client's, and no thread polls these because it serves.
class TlsListener {
 public:
  explicit TlsListener(const TlsFiles& files)
      : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free),
        socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    listens_ =
        SSL_CTX_use_certificate_chain_file(context_.get(), files.certificate.c_str()) == 1 &&
        SSL_CTX_use_PrivateKey_file(context_.get(), files.key.c_str(), SSL_FILETYPE_PEM) == 1 &&
        // Tickets would be written after the handshake, maybe to a peer that has hung up.
        SSL_CTX_set_num_tickets(context_.get(), 0) == 1 && bind(socket_.get(), any, length) == 0 &&
        listen(socket_.get(), 1) == 0 && getsockname(socket_.get(), any, &length) == 0;
    port_ = ntohs(address.sin_port);
  }

  bool listens() const { return listens_; }
  int port() const { return port_; }

  // Waits for a peer. Returns whether it went through with the handshake; false: it hung up.
  bool ShakesHands() {
    const Descriptor peer(accept(socket_.get(), nullptr, nullptr));
    const std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context_.get()), SSL_free);
    return SSL_set_fd(tls.get(), peer.get()) == 1 && SSL_accept(tls.get()) == 1;
  }

 private:
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  const Descriptor socket_;
  bool listens_ = false;
  int port_ = 0;
};

class RpcCredentialsTest : public ::testing::Test {
 protected:
  ~RpcCredentialsTest() override {
    if (server_ != nullptr) server_->Shutdown();
  }

  void Serve(const RpcCredentials& credentials) {
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", credentials.server(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    address_ = WithPort("127.0.0.1:0", port);
  }

  // What a call comes to.
  absl::Status Call(const RpcCredentials& credentials) {
    return ParameterStub(MakeChannel(address_, credentials), address_)
        .Stats(absl::Seconds(30))
        .status();
  }

  // With files that RpcCredentials would refuse.
  absl::Status CallUnchecked(const TlsFiles& files) {
    const auto channel = grpc::CreateChannel(
        address_, grpc::SslCredentials({.pem_root_certs = BytesOfFile(files.authority),
                                        .pem_private_key = BytesOfFile(files.key),
                                        .pem_cert_chain = BytesOfFile(files.certificate)}));
    return ParameterStub(channel, address_).Stats(absl::Seconds(30)).status();
  }

  static RpcCredentials Of(const TlsFiles& files) {
    return *RpcCredentials::Of(files, TlsUse::kCallsAndServes);
  }

  CertificatesForTesting cluster_{::testing::TempDir(), "cluster"};
  CertificatesForTesting other_{::testing::TempDir(), "other"};
  EncryptionService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(RpcCredentialsTest, CertificatesOfOneAuthorityGetThrough) {
  const RpcCredentials server = Of(cluster_.Issue("server"));
  EXPECT_TRUE(server.encrypted());
  Serve(server);
  EXPECT_TRUE(Call(Of(cluster_.Issue("worker"))).ok());
  EXPECT_TRUE(service_.encrypted);
}

TEST_F(RpcCredentialsTest, NoFilesMeanPlainText) {
  const RpcCredentials plain = Of({});
  EXPECT_FALSE(plain.encrypted());
  Serve(plain);
  EXPECT_TRUE(Call(RpcCredentials::PlainText()).ok());
  EXPECT_FALSE(service_.encrypted);
}

TEST_F(RpcCredentialsTest, AClientOfAnotherAuthorityIsRefused) {
  Serve(Of(cluster_.Issue("server")));
  // It believes the server, which does not believe it.
  TlsFiles files = other_.Issue("worker");
  files.authority = cluster_.Issue("worker").authority;
  const absl::Status status = CallUnchecked(files);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("certificate")) << status;
}

TEST_F(RpcCredentialsTest, AClientOfAnotherAuthorityDoesNotBelieveTheServer) {
  Serve(Of(cluster_.Issue("server")));
  const absl::Status status = Call(Of(other_.Issue("worker")));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("certificate")) << status;
}

// What a process holds that started before its certificate expired; RpcCredentials::Of would not
// take it. The server alone is against it.
TEST_F(RpcCredentialsTest, AClientWhoseCertificateHasExpiredIsRefused) {
  Serve(Of(cluster_.Issue("server")));
  const absl::Status status = CallUnchecked(cluster_.Issue("worker", Validity::kExpired));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("expired")) << status;
}

TEST_F(RpcCredentialsTest, AClientWithoutCertificateIsRefused) {
  Serve(Of(cluster_.Issue("server")));
  const auto channel = grpc::CreateChannel(
      address_,
      grpc::SslCredentials({.pem_root_certs = BytesOfFile(cluster_.Issue("worker").authority)}));
  const absl::Status status = ParameterStub(channel, address_).Stats(absl::Seconds(30)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--tls-certificate")) << status;
}

TEST_F(RpcCredentialsTest, AServerUnderAnotherNameIsRefused) {
  Serve(Of(cluster_.Issue("server", Validity::kNow, "10.1.2.3")));
  const absl::Status status = Call(Of(cluster_.Issue("worker")));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("certificate")) << status;
}

TEST_F(RpcCredentialsTest, AProcessCallsItselfWhateverItsCertificateNames) {
  const RpcCredentials own = Of(cluster_.Issue("server", Validity::kNow, "10.1.2.3"));
  Serve(own);
  const auto call = [&](const RpcCredentials& caller) {
    return ParameterStub(grpc::CreateChannel(address_, caller.self()), address_)
        .Stats(absl::Seconds(30))
        .status();
  };
  EXPECT_TRUE(call(own).ok()) << call(own);
  EXPECT_TRUE(service_.encrypted);
  // Whoever else has taken the port over is not believed.
  const absl::Status status = call(Of(other_.Issue("server")));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST_F(RpcCredentialsTest, APlainClientOfAnEncryptedServerIsToldWhatItMayLack) {
  Serve(Of(cluster_.Issue("server")));
  const absl::Status status = Call(RpcCredentials::PlainText());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--tls-authority")) << status;
}

TEST_F(RpcCredentialsTest, AnEncryptedClientOfAPlainServerIsToldSo) {
  Serve(RpcCredentials::PlainText());
  const absl::Status status = Call(Of(cluster_.Issue("worker")));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--tls-authority")) << status;
}

// So a task, which serves nothing, finds a restarted peer: its calls fail at once, and poll
// nothing, until the channel is connected again.
TEST_F(RpcCredentialsTest, AClientConnectsThoughNoCallWaitsForIt) {
  TlsListener server(cluster_.Issue("server"));
  ASSERT_TRUE(server.listens());
  const auto channel =
      MakeChannel(WithPort("127.0.0.1:0", server.port()), Of(cluster_.Issue("worker")));
  channel->GetState(/*try_to_connect=*/true);
  EXPECT_TRUE(server.ShakesHands()) << "the attempt to connect must not end before the handshake";
}

}  // namespace
}  // namespace muster

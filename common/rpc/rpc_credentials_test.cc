// Who gets through to whom: gRPC servers and clients of this process, each with its own
// credentials.

#include "common/rpc/rpc_credentials.h"

#include <memory>
#include <string>

#include "common/files/bytes_of_file.h"
#include "common/rpc/certificates_for_testing.h"
#include "common/rpc/channel.h"
#include "common/rpc/parameter_service/parameter_stub.h"
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

}  // namespace
}  // namespace muster

#include "common/rpc/rpc_status.h"

#include "common/base/lost_state.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

class CodeTest : public ::testing::TestWithParam<int> {};

TEST_P(CodeTest, SurvivesTheWire) {
  const absl::Status status(static_cast<absl::StatusCode>(GetParam()), "shard 3: full");
  const grpc::Status wire = ToGrpc(status);
  EXPECT_EQ(static_cast<int>(wire.error_code()), GetParam());
  EXPECT_EQ(FromGrpc(wire), status);
  EXPECT_EQ(FromCode(GetParam(), "shard 3: full"), status);
}

INSTANTIATE_TEST_SUITE_P(All, CodeTest, ::testing::Range(1, 17));

TEST(RpcStatusTest, OkStaysOk) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
  EXPECT_TRUE(FromCode(0, "ignored").ok());
  EXPECT_TRUE(Annotate(absl::OkStatus(), "push").ok());
}

TEST(RpcStatusTest, AMessageBecomesUtf8) {
  const grpc::Status status = ToGrpc(absl::NotFoundError("no file gr\xf6sse.txt"));
  EXPECT_EQ(status.error_message(), "no file gr\\xf6sse.txt");
}

TEST(RpcStatusTest, ALossGoesAlong) {
  for (const LostState lost : {LostState::kNone, LostState::kServerState, LostState::kCheckpoint}) {
    const absl::Status status = WithLostState(absl::DataLossError("p0 is damaged"), lost);
    EXPECT_EQ(LostStateOf(Annotate(FromGrpc(ToGrpc(status)), "open tables")), lost);
  }
}

TEST(RpcStatusTest, AConnectionThatTlsRefusedComesWithAdvice) {
  const auto advised = [](const char* words) {
    return std::string(FromGrpc(grpc::Status(grpc::UNAVAILABLE, words)).message());
  };
  EXPECT_NE(advised("handshake failed: wrong version number").find("to both or to none"),
            std::string::npos);
  EXPECT_NE(advised("certificate verify failed").find("--tls-authority"), std::string::npos);
  EXPECT_NE(advised("failed to connect to all addresses; last error: Socket closed")
                .find("--tls-certificate"),
            std::string::npos);
  EXPECT_EQ(advised("failed to connect to all addresses; last error: Connection refused"),
            "failed to connect to all addresses; last error: Connection refused");
}

TEST(RpcStatusTest, CodesNobodyDefinedAreUnknown) {
  for (int code : {-1, 17, 1000}) {
    const absl::Status status = FromCode(code, "what?");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
    EXPECT_NE(status.message().find("what?"), absl::string_view::npos);
  }
}

TEST(RpcStatusTest, RetryTimeTravelsBesideTheStatus) {
  EXPECT_FALSE(RetryAfter(absl::UnavailableError("gone")).has_value());
  const absl::Status full =
      WithRetryAfter(absl::ResourceExhaustedError("full"), absl::Milliseconds(150));
  EXPECT_EQ(RetryAfter(full), absl::Milliseconds(150));
  const absl::Status annotated = Annotate(full, "push to shard 3");
  EXPECT_EQ(annotated.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(annotated.message(), "push to shard 3: full");
  EXPECT_EQ(RetryAfter(annotated), absl::Milliseconds(150));
}

}  // namespace
}  // namespace muster

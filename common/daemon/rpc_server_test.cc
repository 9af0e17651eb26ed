#include "common/daemon/rpc_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/daemon/self_check.h"
#include "common/rpc/certificates_for_testing.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_credentials.h"
#include "common/transport/descriptor.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "grpcpp/support/byte_buffer.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

grpc::Status Ask(grpc::Channel& channel) {
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(60));
  const grpc::internal::RpcMethod method("/grpc.health.v1.Health/Check",
                                         grpc::internal::RpcMethod::NORMAL_RPC);
  grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer reply;
  return grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      &channel, method, &context, request, &reply);
}

// What gRPC's health service says of a service: 1 SERVING, 2 NOT_SERVING; 0: it is not asked about
// or the call fails.
int Health(grpc::Channel& channel, const std::string& service) {
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(60));
  const grpc::internal::RpcMethod method("/grpc.health.v1.Health/Check",
                                         grpc::internal::RpcMethod::NORMAL_RPC);
  // HealthCheckRequest { service }, HealthCheckResponse { status }.
  grpc::Slice slice(service.empty()
                        ? std::string()
                        : absl::StrCat("\x0a", std::string(1, service.size()), service));
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer reply;
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      &channel, method, &context, request, &reply);
  grpc::Slice answer;
  if (!status.ok() || !reply.TrySingleSlice(&answer).ok() || answer.size() != 2) return 0;
  return answer.begin()[1];
}

// A connection over which nothing is said.
Descriptor Knock(int port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ADD_FAILURE() << "connect: " << strerror(errno);
  }
  return socket;
}

bool Ended(const Descriptor& socket) {
  pollfd asked = {.fd = socket.get(), .events = POLLIN};
  return poll(&asked, 1, 0) == 1;
}

int PortOf(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  return port;
}

// A server without services of its own on a port of its own.
absl::StatusOr<std::unique_ptr<RpcServer>> Serve(const std::string& listen,
                                                 const RpcCredentials& credentials,
                                                 const RpcServerOptions& options = {}) {
  MUSTER_ASSIGN_OR_RETURN(RpcPort port, RpcPort::Listen(listen, credentials));
  return RpcServer::Start(std::move(port), {}, options);
}

// A server in a process of its own that may have few descriptors. Starts before anything of gRPC
// runs in this process.
class ServerProcess {
 public:
  explicit ServerProcess(rlim_t descriptors) {
    int ready[2], stop[2];
    if (pipe(ready) != 0 || pipe(stop) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      close(stop[1]);
      const rlimit limit = {.rlim_cur = descriptors, .rlim_max = descriptors};
      setrlimit(RLIMIT_NOFILE, &limit);
      const auto server = Serve("127.0.0.1:0", RpcCredentials::PlainText());
      if (!server.ok()) _exit(1);
      const int port = PortOf((*server)->address());
      if (write(ready[1], &port, sizeof(port)) != sizeof(port)) _exit(1);
      char end = 0;
      _exit(read(stop[0], &end, 1) == 0 ? 0 : 1);
    }
    close(ready[1]);
    close(stop[0]);
    stop_ = Descriptor(stop[1]);
    EXPECT_EQ(read(ready[0], &port_, sizeof(port_)), static_cast<ssize_t>(sizeof(port_)));
    close(ready[0]);
  }
  ~ServerProcess() {
    stop_.Close();
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_EQ(status, 0);
  }
  int port() const { return port_; }

 private:
  pid_t pid_ = 0;
  Descriptor stop_;
  int port_ = 0;
};

// First of the file: it forks.
TEST(RpcServerTest, IdleConnectionsBeyondTheDescriptorLimitKeepNobodyOut) {
  constexpr rlim_t kDescriptors = 120;
  const ServerProcess process(kDescriptors);
  const std::string address = absl::StrCat("127.0.0.1:", process.port());
  const auto before = MakeChannel(address, RpcCredentials::PlainText());
  ASSERT_TRUE(Ask(*before).ok());
  for (int wave = 0; wave < 3; ++wave) {
    std::vector<Descriptor> idle;
    for (rlim_t i = 0; i < 2 * kDescriptors; ++i) idle.push_back(Knock(process.port()));
    const auto stranger =
        MakeChannel(address, RpcCredentials::PlainText(), ConnectionSharing::kOwn);
    const grpc::Status answer = Ask(*stranger);
    EXPECT_TRUE(answer.ok()) << answer.error_message();
    EXPECT_EQ(before->GetState(false), GRPC_CHANNEL_READY) << "a caller keeps its connection";
    rlim_t open = 0;
    for (const Descriptor& connection : idle) open += !Ended(connection);
    EXPECT_LE(open, kDescriptors / 3);
  }
}

TEST(RpcServerTest, ListensWhereItIsToldTo) {
  for (const std::string address : {"127.0.0.1:0", "localhost:0", "0.0.0.0:0", "[::]:0"}) {
    const auto server = Serve(address, RpcCredentials::PlainText());
    ASSERT_TRUE(server.ok()) << server.status();
    const int port = PortOf((*server)->address());
    EXPECT_EQ((*server)->address(), WithPort(address, port));
    const auto channel = MakeChannel(absl::StrCat("127.0.0.1:", port), RpcCredentials::PlainText());
    EXPECT_TRUE(Ask(*channel).ok()) << address;
    const auto second = Serve((*server)->address(), RpcCredentials::PlainText());
    EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable) << address;
    EXPECT_THAT(std::string(second.status().message()),
                HasSubstr(absl::StrCat("cannot listen on ", (*server)->address())));
  }
  for (const std::string address : {"7070", ":7070", "localhost:99999", "nosuchhost.invalid:0"}) {
    EXPECT_EQ(Serve(address, RpcCredentials::PlainText()).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

TEST(RpcServerTest, WhoConnectsBeforeThePortIsServedIsServedThen) {
  auto port = RpcPort::Listen("127.0.0.1:0", RpcCredentials::PlainText());
  ASSERT_TRUE(port.ok()) << port.status();
  const Descriptor early = Knock(PortOf(port->address()));
  // HTTP/2's preface, and a frame of settings that sets nothing; the text's own end is its last
  // byte.
  constexpr char kHello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
  ASSERT_EQ(write(early.get(), kHello, sizeof(kHello)), static_cast<ssize_t>(sizeof(kHello)));
  EXPECT_FALSE(Ended(early));
  const auto server = RpcServer::Start(*std::move(port), {});
  ASSERT_TRUE(server.ok()) << server.status();
  // The head of a frame: three bytes of length, and its type.
  char answer[4] = {};
  EXPECT_EQ(recv(early.get(), answer, sizeof(answer), MSG_WAITALL),
            static_cast<ssize_t>(sizeof(answer)));
  EXPECT_EQ(answer[3], 4) << "the server's settings";
}

TEST(RpcServerTest, WhoWaitsAtAPortThatIsNeverServedIsLetGo) {
  auto port = RpcPort::Listen("127.0.0.1:0", RpcCredentials::PlainText());
  ASSERT_TRUE(port.ok()) << port.status();
  const Descriptor waiting = Knock(PortOf(port->address()));
  port = absl::CancelledError();
  char byte = 0;
  EXPECT_LE(read(waiting.get(), &byte, 1), 0);
}

TEST(RpcServerTest, TellsReadinessApartFromLiveness) {
  const auto server = Serve("127.0.0.1:0", RpcCredentials::PlainText(), {.ready = false});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel = MakeChannel((*server)->address(), RpcCredentials::PlainText());
  EXPECT_EQ(Health(*channel, ""), 2);
  EXPECT_EQ(Health(*channel, kLiveness), 1);
  (*server)->SetReady(true);
  EXPECT_EQ(Health(*channel, ""), 1);
  (*server)->SetReady(false);
  EXPECT_EQ(Health(*channel, ""), 2);
  EXPECT_EQ(Health(*channel, kLiveness), 1);
}

TEST(RpcServerTest, ServesUnderTls) {
  CertificatesForTesting cluster(testing::TempDir(), "cluster");
  const auto server_side = RpcCredentials::Of(cluster.Issue("server"), TlsUse::kCallsAndServes);
  const auto caller = RpcCredentials::Of(cluster.Issue("worker"), TlsUse::kCallsAndServes);
  ASSERT_TRUE(server_side.ok() && caller.ok());
  const auto server = Serve("127.0.0.1:0", *server_side);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(Ask(*MakeChannel((*server)->address(), *caller)).ok());
}

// Expects that the self-check of a process with these credentials works until its server is gone,
// and tells that then.
void ExpectSelfCheckHears(const RpcCredentials& own) {
  auto server = Serve("127.0.0.1:0", own);
  ASSERT_TRUE(server.ok()) << server.status();
  absl::Notification deaf;
  absl::Status why;
  SelfCheck check({.address = (*server)->address(),
                   .interval = absl::Milliseconds(1),
                   .timeout = absl::Seconds(5),
                   .failures = 2},
                  own, [&](const absl::Status& status) {
                    why = status;
                    deaf.Notify();
                  });
  EXPECT_FALSE(deaf.WaitForNotificationWithTimeout(absl::Milliseconds(200)));
  server->reset();
  deaf.WaitForNotification();
  EXPECT_THAT(std::string(why.message()), HasSubstr("does not answer on its own port"));
}

TEST(SelfCheckTest, TellsOnceTheOwnPortDoesNotAnswerAnyMore) {
  ExpectSelfCheckHears(RpcCredentials::PlainText());
}

// A worker's certificate need not name its host, since nobody else calls a worker.
TEST(SelfCheckTest, HearsItselfUnderTlsWhateverItsCertificateNames) {
  CertificatesForTesting cluster(testing::TempDir(), "anywhere");
  const auto own = RpcCredentials::Of(
      cluster.Issue("worker", CertificatesForTesting::Validity::kNow, "10.1.2.3"),
      TlsUse::kCallsAndServes);
  ASSERT_TRUE(own.ok()) << own.status();
  ExpectSelfCheckHears(*own);
}

}  // namespace
}  // namespace muster

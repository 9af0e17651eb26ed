#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/fuzz/fuzz_check.h"
#include "common/transport/descriptor.h"
#include "worker/collectives/transport/meeting/handshake.h"

namespace muster {
namespace {

constexpr char kSecret[] = "the group's secret";

void CheckHello(absl::string_view bytes) {
  const auto hello = Hello::Parse(bytes);
  if (!hello.ok()) {
    FUZZ_CHECK(hello.status().code() == absl::StatusCode::kInvalidArgument);
    return;
  }
  const std::string again = hello->Serialize();
  // Any other byte than 0 says that TLS is on.
  FUZZ_CHECK(again.size() == bytes.size());
  const auto same = Hello::Parse(again);
  FUZZ_CHECK(same.ok() && same->Serialize() == again);
  FUZZ_CHECK(!ProvesSecret(*hello, kSecret));
}

// Lets a caller meet a called rank that sends these bytes and no more.
void CheckCall(absl::string_view bytes) {
  int sockets[2];
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
  const Descriptor caller(sockets[0]);
  const Descriptor called(sockets[1]);
  FUZZ_CHECK(send(called.get(), bytes.data(), bytes.size(), 0) ==
             static_cast<ssize_t>(bytes.size()));
  shutdown(called.get(), SHUT_WR);
  Hello hello;
  hello.nonce = std::string(16, 'n');
  FUZZ_CHECK(!Call(caller.get(), hello, kSecret, Deadline::After(absl::Minutes(1))).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckHello(bytes);
  // A socket's buffer takes this much.
  CheckCall(bytes.substr(0, 4096));
  return 0;
}

}  // namespace muster

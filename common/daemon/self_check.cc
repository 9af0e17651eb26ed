#include "common/daemon/self_check.h"

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/daemon/daemon.h"
#include "common/rpc/channel.h"
#include "common/rpc/health_check.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace muster {
namespace {

// Returns the address where a process that listens on `listening` reaches itself.
std::string FromWithin(const std::string& listening) {
  if (!IsOnAllAddresses(listening)) return listening;
  return absl::StrCat("127.0.0.1", listening.substr(listening.rfind(':')));
}

// Returns whether the server was reached, whatever it thinks of the call.
bool WasHeard(const absl::Status& status) {
  return !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status);
}

}  // namespace

SelfCheck::SelfCheck(SelfCheckOptions options, const RpcCredentials& credentials,
                     std::function<void(const absl::Status&)> deaf)
    : options_(std::move(options)),
      credentials_(credentials),
      deaf_(std::move(deaf)),
      thread_([this] { Run(); }) {}

SelfCheck::~SelfCheck() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (call_ != nullptr) call_->TryCancel();
  }
  thread_.join();
}

void SelfCheck::Run() {
  bool worked = false;
  int failed = 0;
  while (true) {
    const absl::Status status = CallOnce();
    worked |= WasHeard(status);
    failed = WasHeard(status) ? 0 : failed + 1;
    if (worked && failed >= options_.failures) {
      return deaf_(absl::UnavailableError(absl::StrCat(
          "this process does not answer on its own port: ", failed, " calls to ", options_.address,
          " failed in a row, the last one with: ", status.message())));
    }
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), options_.interval)) return;
  }
}

absl::Status SelfCheck::CallOnce() {
  grpc::ChannelArguments arguments;
  // An existing connection proves nothing.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!credentials_.own_host().empty()) {
    arguments.SetSslTargetNameOverride(credentials_.own_host());
  }
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(FromWithin(options_.address), credentials_.self(), arguments);
  grpc::ClientContext context;
  SetDeadline(context, options_.timeout);
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::CancelledError("the daemon stops");
    call_ = &context;
  }
  const absl::Status status = CheckHealth(*channel, context);
  absl::MutexLock lock(&mutex_);
  call_ = nullptr;
  return status;
}

}  // namespace muster

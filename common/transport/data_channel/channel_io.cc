#include "common/transport/data_channel/channel_io.h"

#include <algorithm>
#include <utility>

#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// Bytes of unused receive buffers that the pool keeps.
constexpr size_t kPoolBytes = size_t{256} << 20;

}  // namespace

int TlsIoThreads() { return std::clamp(UsableProcessors() / 2, 1, 8); }

absl::StatusOr<std::shared_ptr<ChannelIo>> ChannelIo::Create(ChannelIoOptions options) {
  const int threads =
      options.threads > 0 ? options.threads : std::clamp(UsableProcessors() / 8, 1, 4);
  std::vector<std::unique_ptr<IoLoop>> loops;
  for (int i = 0; i < threads; ++i) {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<IoLoop> loop, IoLoop::Create());
    loops.push_back(std::move(loop));
  }
  return std::shared_ptr<ChannelIo>(
      new ChannelIo(std::move(loops), BufferPool::Create(kPoolBytes)));
}

}  // namespace muster

#include "common/transport/answer.h"

#include <cstdint>

#include "common/transport/wire.h"

namespace muster {

std::string EncodeAnswer(const absl::Status& status, absl::string_view content) {
  WireWriter writer;
  writer.Number(static_cast<uint32_t>(status.code()));
  writer.Text(status.ok() ? content
                          : absl::string_view(status.message().data(), status.message().size()));
  return writer.bytes();
}

absl::StatusOr<std::string> DecodeAnswer(absl::string_view bytes) {
  WireReader reader(bytes);
  const auto code = reader.Number<uint32_t>();
  std::string content = reader.Text();
  if (!reader.Done() || code > 16) {
    return absl::UnavailableError("the answer of the other end makes no sense");
  }
  if (code != 0) return absl::Status(static_cast<absl::StatusCode>(code), content);
  return content;
}

}  // namespace muster

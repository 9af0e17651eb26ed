#include "worker/data/parsing/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr absl::string_view kMagic("\x1f\x8b", 2);
constexpr size_t kChunk = size_t{1} << 18;
// Most bytes for one call: zlib counts in unsigned int.
constexpr size_t kMostInput = size_t{1} << 30;

}  // namespace

bool IsGzip(absl::string_view bytes) { return absl::StartsWith(bytes, kMagic); }

absl::StatusOr<std::string> Gunzip(absl::string_view bytes, size_t limit) {
  z_stream stream = {};
  // Adding 16 to the window's size makes zlib expect a gzip header.
  if (inflateInit2(&stream, MAX_WBITS + 16) != Z_OK) {
    return absl::ResourceExhaustedError("zlib could not allocate its state");
  }
  const auto end = absl::MakeCleanup([&stream] { inflateEnd(&stream); });
  std::string output;
  size_t consumed = 0;
  while (output.size() < limit) {
    const size_t filled = output.size();
    const size_t room = std::min(kChunk, limit - filled);
    const size_t input = std::min(kMostInput, bytes.size() - consumed);
    output.resize(filled + room);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + consumed));
    stream.avail_in = static_cast<uInt>(input);
    stream.next_out = reinterpret_cast<Bytef*>(output.data() + filled);
    stream.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream, Z_NO_FLUSH);
    consumed += input - stream.avail_in;
    output.resize(filled + room - stream.avail_out);
    if (result == Z_STREAM_END) {
      if (!IsGzip(bytes.substr(consumed))) return output;
      inflateReset(&stream);
    } else if (result == Z_BUF_ERROR) {
      return absl::DataLossError(absl::StrCat("the gzip stream ends early, after ", bytes.size(),
                                              " bytes, which hold ", output.size(),
                                              " unpacked bytes"));
    } else if (result != Z_OK) {
      return absl::DataLossError(absl::StrCat("the gzip stream is damaged at byte ", consumed, ": ",
                                              stream.msg != nullptr ? stream.msg : "unknown"));
    }
  }
  return output;
}

}  // namespace muster

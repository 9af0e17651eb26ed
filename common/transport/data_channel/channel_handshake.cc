#include "common/transport/data_channel/channel_handshake.h"

#include "absl/strings/str_cat.h"
#include "common/transport/data_channel/frame.h"
#include "common/transport/keyed_hash.h"
#include "common/transport/wire.h"

namespace muster {
namespace {

constexpr char kHelloMagic[] = "muster channel";

}  // namespace

std::string ChannelHello::Serialize() const {
  WireWriter writer;
  writer.Text(kHelloMagic);
  writer.Number(version);
  writer.Text(nonce);
  writer.Number(static_cast<uint8_t>(kind));
  writer.Number(arena_bytes);
  writer.Number(registered_bytes);
  return writer.bytes();
}

absl::StatusOr<ChannelHello> ChannelHello::Parse(absl::string_view bytes) {
  WireReader reader(bytes);
  if (reader.Text() != kHelloMagic) {
    return absl::InvalidArgumentError("not a client of the data channel");
  }
  ChannelHello hello;
  hello.version = reader.Number<uint32_t>();
  // Checked before the rest, whose form other versions may change.
  if (reader.ok() && hello.version != kChannelVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the client speaks version ", hello.version, " of the data channel, this server version ",
        kChannelVersion, "; use the rpc Exchange, or the same release on both sides"));
  }
  hello.nonce = reader.Text();
  const auto kind = reader.Number<uint8_t>();
  hello.arena_bytes = reader.Number<uint64_t>();
  hello.registered_bytes = reader.Number<uint64_t>();
  if (!reader.Done() || kind > static_cast<uint8_t>(Kind::kTls)) {
    return absl::InvalidArgumentError("not a hello of the data channel");
  }
  hello.kind = static_cast<Kind>(kind);
  return hello;
}

std::string ChannelProof(absl::string_view secret, absl::string_view hello,
                         absl::string_view challenge) {
  return KeyedHash(secret, absl::StrCat("channel", std::string(hello), std::string(challenge)));
}

std::string ChannelTlsKey(absl::string_view secret, absl::string_view hello,
                          absl::string_view challenge) {
  return KeyedHash(secret, absl::StrCat("tls", std::string(hello), std::string(challenge)));
}

}  // namespace muster

#include "worker/collectives/transport/meeting/endpoint_address.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/transport/wire.h"

namespace muster {
namespace {

constexpr uint32_t kAddressVersion = 1;
constexpr size_t kAddressNonceBytes = 16;
// Length of sockaddr_un's path without the leading zero.
constexpr size_t kMaxUnixName = 107;

}  // namespace

std::string EndpointAddress::Serialize() const {
  WireWriter writer;
  writer.Number(kAddressVersion);
  writer.Text(host);
  writer.Number(port);
  writer.Text(unix_name);
  writer.Text(nonce);
  writer.Number(pid);
  return writer.bytes();
}

absl::StatusOr<EndpointAddress> EndpointAddress::Parse(absl::string_view bytes) {
  WireReader reader(bytes);
  const uint32_t version = reader.Number<uint32_t>();
  if (reader.ok() && version != kAddressVersion) {
    return absl::InvalidArgumentError(absl::StrCat("address of version ", version, ", known is ",
                                                   kAddressVersion,
                                                   "; run the same release on all machines"));
  }
  EndpointAddress address;
  address.host = reader.Text();
  address.port = reader.Number<uint16_t>();
  address.unix_name = reader.Text();
  address.nonce = reader.Text();
  address.pid = reader.Number<uint32_t>();
  if (!reader.Done() || address.nonce.size() != kAddressNonceBytes ||
      address.unix_name.size() > kMaxUnixName) {
    return absl::InvalidArgumentError(
        absl::StrCat("not the address of an endpoint (", bytes.size(), " bytes)"));
  }
  return address;
}

}  // namespace muster

#include "common/base/message_fingerprint.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include <string>

#include "common/base/fingerprint.h"

namespace muster {

uint64_t FingerprintOf(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream into(&bytes);
    google::protobuf::io::CodedOutputStream coded(&into);
    coded.SetSerializationDeterministic(true);
    message.SerializePartialToCodedStream(&coded);
  }
  return Fingerprint(bytes);
}

}  // namespace muster

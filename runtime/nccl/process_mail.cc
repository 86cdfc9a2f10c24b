#include "runtime/nccl/process_mail.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <utility>

#include "runtime/control/host_identity.h"
#include "runtime/control/meeting.h"
#include "runtime/control/sealed_stream.h"
#include "runtime/environment.h"

namespace tessera {
namespace {

using Clock = RankClock;
using std::chrono::milliseconds;

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;  ///< of a text, in one frame
/// How long one that connects has to prove that it knows the token. A rank does not try again, and
/// on a machine that starves its thread the proof takes seconds.
constexpr milliseconds kStrangerLimit{30'000};
/// How long the control channel has to say why a connection has ended.
constexpr milliseconds kGrace{1'000};
constexpr milliseconds kFlushLimit{1'000};

/// What precedes each piece.
struct Header {
  std::uint32_t group = 0;
  std::int32_t from = -1, to = -1;
  std::int32_t part = 0;
  std::uint64_t sequence = 0;
  std::uint64_t is_last = 0;
};

void append_pieces(SealedStream& stream, const MailKey& key, std::string_view text) {
  do {
    const std::string_view piece = text.substr(0, kPieceBytes);
    text.remove_prefix(piece.size());
    const Header header{key.group, key.from,     key.to,
                        key.part,  key.sequence, text.empty() ? 1U : 0U};
    std::string bytes(sizeof header, '\0');
    std::memcpy(bytes.data(), &header, sizeof header);
    stream.write(bytes.append(piece));
  } while (!text.empty());
}

class ProcessMail final : public HostMail {
 public:
  ProcessMail(const ControlPlace& place, const ControlToken& token, WakeUp wake_up)
      : place_(place), token_(token), wake_up_(std::move(wake_up)) {
    out_.resize(static_cast<std::size_t>(place.size));
    ended_.resize(static_cast<std::size_t>(place.size));
  }
  ~ProcessMail() override {
    ends_ = true;
    wake_up_.wake();
    if (thread_.joinable()) thread_.join();
  }
  void start(Descriptor listener, std::vector<Endpoint> endpoints) {
    listener_ = std::move(listener);
    endpoints_ = std::move(endpoints);
    thread_ = Thread([this] { run(); });
  }

  void send(std::int64_t to, const MailKey& key, std::string text) override {
    {
      const std::lock_guard lock(mutex_);
      throw_if_lost(to);
      if (to == place_.rank) {
        mail_[{to, key}] = std::move(text);
        return;
      }
      to_send_.push_back({to, key, std::move(text)});
    }
    wake_up_.wake();
  }
  std::optional<std::string> take(std::int64_t from, const MailKey& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = mail_.find({from, key});
    if (found == mail_.end()) {
      throw_if_lost(from);
      return std::nullopt;
    }
    std::string text = std::move(found->second);
    mail_.erase(found);
    return text;
  }

 private:
  struct ToSend {
    std::int64_t to = 0;
    MailKey key;
    std::string text;
  };
  struct Caller {
    SealedStream stream;
    Clock::time_point until;  ///< of one that has not proved itself
    std::map<MailKey, std::string> begun = {};
  };
  struct End {
    Clock::time_point seen;
    std::string why;
  };

  void throw_if_lost(std::int64_t rank) const {  // under mutex_
    const std::optional<End>& end = ended_[static_cast<std::size_t>(rank)];
    if (!end || Clock::now() < end->seen + kGrace) return;
    throw Error(unavailable("rank " + std::to_string(place_.rank) +
                            " has lost its connection with rank " + std::to_string(rank) + ": " +
                            end->why));
  }
  void run();
  void take_up();
  void wait();
  void hear(Caller& caller);
  bool has_unsent() const;
  void note_end(std::int64_t rank, const std::string& why) {
    const std::lock_guard lock(mutex_);
    std::optional<End>& end = ended_[static_cast<std::size_t>(rank)];
    if (!end) end = {Clock::now(), why};
  }

  const ControlPlace place_;
  const ControlToken token_;
  const WakeUp wake_up_;
  std::atomic<bool> ends_{false};

  Mutex mutex_;                                                   // of those below
  std::map<std::pair<std::int64_t, MailKey>, std::string> mail_;  ///< what came, by sender
  std::vector<ToSend> to_send_;
  std::vector<std::optional<End>> ended_;  ///< by rank

  // Of the thread.
  Descriptor listener_;
  std::vector<Endpoint> endpoints_;
  std::vector<std::optional<SealedStream>> out_;  ///< by rank
  std::list<Caller> callers_;
  Thread thread_;
};

void ProcessMail::run() {
  Clock::time_point end = Clock::time_point::max();
  while (true) {
    const bool closing = ends_;  // before the last letters are taken up
    if (closing && end == Clock::time_point::max()) end = Clock::now() + kFlushLimit;
    take_up();
    for (std::size_t rank = 0; rank < out_.size(); ++rank) {
      std::optional<SealedStream>& stream = out_[rank];
      if (!stream) continue;
      stream->pump();
      static_cast<void>(stream->read());  // nothing comes this way
      if (!stream->is_over()) continue;
      if (stream->has_unsent()) note_end(static_cast<std::int64_t>(rank), "it takes no more");
    }
    for (Caller& caller : callers_) hear(caller);
    callers_.remove_if([](const Caller& caller) {
      return caller.stream.is_over() ||
             (!caller.stream.has_proved() && Clock::now() >= caller.until);
    });
    while (std::optional<Descriptor> socket = accept_from(listener_)) {
      callers_.push_back({SealedStream::answer(*std::move(socket), token_, control::Purpose::kMail),
                          Clock::now() + kStrangerLimit});
    }
    if (closing && (!has_unsent() || Clock::now() >= end)) return;
    wait();
  }
}

bool ProcessMail::has_unsent() const {
  return std::any_of(out_.begin(), out_.end(), [](const std::optional<SealedStream>& stream) {
    return stream && stream->has_unsent() && !stream->is_over();
  });
}

void ProcessMail::take_up() {
  std::vector<ToSend> letters;
  {
    const std::lock_guard lock(mutex_);
    letters.swap(to_send_);
  }
  for (const ToSend& letter : letters) {
    const auto at = static_cast<std::size_t>(letter.to);
    if (!out_[at]) {
      StatusOr<Descriptor> socket = begin_connecting(endpoints_[at]);
      if (!socket.ok()) {
        note_end(letter.to, std::string(message_of(socket.status())));
        continue;
      }
      out_[at] = SealedStream::call(*std::move(socket), token_,
                                    new_hello(place_.rank, letter.to, control::Purpose::kMail));
    }
    append_pieces(*out_[at], letter.key, letter.text);
  }
}

void ProcessMail::hear(Caller& caller) {
  caller.stream.pump();
  const std::int64_t rank = caller.stream.hello().rank;
  while (const std::optional<std::string> piece = caller.stream.read()) {
    Header header;
    if (piece->size() < sizeof header || rank < 0 || rank >= place_.size) continue;
    std::memcpy(&header, piece->data(), sizeof header);
    const MailKey key{header.group, header.from, header.to, header.sequence, header.part};
    std::string& text = caller.begun[key];
    text.append(*piece, sizeof header);
    if (header.is_last == 0) continue;
    const std::lock_guard lock(mutex_);
    mail_[{rank, key}] = std::move(text);
    caller.begun.erase(key);
  }
  if (caller.stream.is_over() && caller.stream.has_proved()) note_end(rank, "it has ended");
}

void ProcessMail::wait() {
  std::vector<pollfd> entries{{wake_up_.descriptor().number(), POLLIN, 0},
                              {listener_.number(), POLLIN, 0}};
  for (const std::optional<SealedStream>& stream : out_) {
    if (stream) entries.push_back(stream->entry());
  }
  std::optional<Clock::time_point> until;
  for (const Caller& caller : callers_) {
    entries.push_back(caller.stream.entry());
    if (!caller.stream.has_proved() && (!until || caller.until < *until)) until = caller.until;
  }
  if (ends_) until = Clock::now() + milliseconds(10);
  poll_until(entries, until);
  wake_up_.clear();
}

StatusOr<std::vector<Endpoint>> read_endpoints(const std::vector<std::string>& texts) {
  std::vector<Endpoint> endpoints;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    TSR_ASSIGN_OR_RETURN(Published said, read_published(rank, texts[rank], "mail"));
    endpoints.push_back(std::move(said.at));
  }
  return endpoints;
}

}  // namespace

StatusOr<std::unique_ptr<HostMail>> open_process_mail(const ControlPlace& place,
                                                      const ControlToken& token,
                                                      const ExchangeTexts& exchange) {
  StatusOr<Listener> listener = listen_on(host_to_listen_on(exchange(network_id())), 0);
  TSR_ASSIGN_OR_RETURN(std::vector<Endpoint> endpoints,
                       read_endpoints(exchange(published(listener))));
  TSR_ASSIGN_OR_RETURN(WakeUp wake_up, WakeUp::make());
  auto mail = std::make_unique<ProcessMail>(place, token, std::move(wake_up));
  mail->start(std::move(listener->socket), std::move(endpoints));
  return std::unique_ptr<HostMail>(std::move(mail));
}

}  // namespace tessera

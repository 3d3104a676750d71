// All memory of an engine: one block, sized from the layer table before a network is trained.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

namespace zo {

/// Hands out aligned, zeroed spans of one block and never takes any back.
///
/// The plan is made first (`reserve`), the block is allocated once (`allocate`), and the spans are
/// valid as long as the block. Nothing is allocated while a network is trained.
class Arena {
   public:
    static constexpr std::size_t kAlignment = 64;  ///< a cache line, and the longest vector
    static constexpr std::size_t kSlack = 64;      ///< readable bytes behind each span

    Arena() = default;
    Arena(const Arena&) = delete;  // it knows where its spans are
    Arena& operator=(const Arena&) = delete;

    /// Asks for `elements` of T; `into` is set by `allocate`.
    template <class T>
    void reserve(std::span<T>& into, std::size_t elements) {
        static_assert(std::is_trivially_copyable_v<T>);
        const std::size_t offset = size_;
        size_ += (elements * sizeof(T) + kSlack + kAlignment - 1) / kAlignment * kAlignment;
        requests_.push_back({&into, offset, elements, [](void* span, std::byte* at, std::size_t n) {
                                 *static_cast<std::span<T>*>(span) = {reinterpret_cast<T*>(at), n};
                             }});
    }

    /// Allocates the block, zeroes it and fills in all spans. Throws std::bad_alloc.
    void allocate() {
        block_.reset(
            static_cast<std::byte*>(std::aligned_alloc(kAlignment, std::max(size_, kAlignment))),
            std::free);
        if (!block_) throw std::bad_alloc();
        std::memset(block_.get(), 0, size_);
        for (const Request& r : requests_) r.fill(r.span, block_.get() + r.offset, r.elements);
        requests_.clear();
        requests_.shrink_to_fit();
    }

    std::size_t bytes() const { return size_; }
    /// To be held by who uses a span longer than the arena is there.
    std::shared_ptr<std::byte> block() const { return block_; }

   private:
    struct Request {
        void* span;
        std::size_t offset, elements;
        void (*fill)(void*, std::byte*, std::size_t);
    };

    std::size_t size_ = 0;
    std::vector<Request> requests_;
    std::shared_ptr<std::byte> block_;
};

}  // namespace zo

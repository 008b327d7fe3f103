"""Linear problems one of whose groups has very many levels."""

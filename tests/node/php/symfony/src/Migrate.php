<?php
namespace App;

use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\OutputInterface;

class Migrate extends Command
{
    protected static $defaultName = 'app:migrate';

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        $database = Database::connect();
        $database->exec('CREATE TABLE IF NOT EXISTS visits (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50))');
        $database->exec('CREATE TABLE IF NOT EXISTS migrations (id INT AUTO_INCREMENT PRIMARY KEY, host VARCHAR(255))');
        $database->prepare('INSERT INTO migrations (host) VALUES (?)')->execute([gethostname()]);
        $output->writeln('migrated');
        return 0;
    }
}
